#include "format/storage/credentials.h"

#include "format/base/read.h"
#include "format/base/text.h"
#include "format/storage/request.h"
#include "format/storage/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define METADATA_URL  "http://169.254.169.254"
#define CONTAINER_URL "http://169.254.170.2"

enum { ANSWER_BYTES = 1 << 16, FILE_BYTES = 1 << 20 };

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

void ff_credentials_free(ff_credentials *credentials) {
    free(credentials->key);
    free(credentials->secret);
    free(credentials->token);
    *credentials = (ff_credentials){0};
}

/* ---- the files of the AWS tools ------------------------------------------------------------- */

static const char *profile_name(void) {
    const char *name = setting("AWS_PROFILE");
    return name ? name : "default";
}

/* The path of ~/.aws/NAME, or of the file that a variable names. */
static ff_status file_path(char **path, const char *variable, const char *name, ff_error *error) {
    const char *home = setting("HOME");
    if (setting(variable)) return ff_copy_string(path, setting(variable), error);
    return ff_format(path, error, "%s/.aws/%s", home ? home : "", name);
}

/* Whether a line is [NAME] or [profile NAME]. */
static bool is_heading(const char *line, const char *name) {
    size_t length = strlen(line);
    if (*line != '[' || line[length - 1] != ']') return false;
    line = ff_text_trim(line + 1, (length -= 2, &length));
    if (length > 8 && !strncmp(line, "profile ", 8)) {
        length -= 8;
        line = ff_text_trim(line + 8, &length);
    }
    return length == strlen(name) && !memcmp(line, name, length);
}

/* *value = the setting `name` of the profile in a file's text, allocated; NULL = it has none. Lines
 * that begin with a blank are settings of a setting. *there = true if the profile stands in it. */
static ff_status profile_value(char **value, const char *text, const char *name, bool *there,
                               ff_error *error) {
    char *copy, *cursor;
    bool inside = false;
    ff_status status = FF_OK;
    FF_TRY(ff_copy_string(&copy, text, error));
    cursor = copy;
    for (char *line; status == FF_OK && !*value && (line = ff_text_line(&cursor));) {
        const size_t all = strlen(line);
        if (!all || strchr("#; \t", *line)) continue;
        if (*line == '[') {
            inside = is_heading(line, profile_name());
            *there |= inside;
            continue;
        }
        const char *equals = strchr(line, '=');
        if (!inside || !equals) continue;
        size_t key_bytes = (size_t)(equals - line), value_bytes = all - key_bytes - 1;
        const char *key = ff_text_trim(line, &key_bytes),
                   *found = ff_text_trim(equals + 1, &value_bytes);
        if (key_bytes == strlen(name) && !memcmp(key, name, key_bytes))
            status = ff_copy_bytes(value, found, value_bytes, error);
    }
    free(copy);
    return status;
}

/* The same of both files, the credentials' first. */
static ff_status configured(char **value, const char *name, bool *there, ff_error *error) {
    static const char *const files[][2] = {{"AWS_SHARED_CREDENTIALS_FILE", "credentials"},
                                           {"AWS_CONFIG_FILE", "config"}};
    *value = NULL;
    for (int i = 0; i < 2 && !*value; i++) {
        char *path;
        ff_buffer text = {0};
        ff_status status = file_path(&path, files[i][0], files[i][1], error);
        if (status == FF_OK && access(path, F_OK) == 0)
            status = ff_read_whole(&text, path, FILE_BYTES, error);
        if (status == FF_OK && text.bytes)
            status = profile_value(value, text.bytes, name, there, error);
        free(path);
        ff_buffer_free(&text);
        FF_TRY(status);
    }
    return FF_OK;
}

static ff_status from_files(ff_credentials *credentials, ff_error *error) {
    bool there = false;
    FF_TRY(configured(&credentials->key, "aws_access_key_id", &there, error));
    FF_TRY(configured(&credentials->secret, "aws_secret_access_key", &there, error));
    FF_TRY(configured(&credentials->token, "aws_session_token", &there, error));
    if (!there && setting("AWS_PROFILE"))
        return ff_fail(error, FF_USAGE,
                       "AWS_PROFILE=%s: ~/.aws/credentials and ~/.aws/config have no such profile",
                       profile_name());
    if (!credentials->key != !credentials->secret)
        return ff_fail(error, FF_USAGE,
                       "the profile %s has only one of aws_access_key_id and aws_secret_access_key",
                       profile_name());
    return FF_OK;
}

/* Refuses a profile whose keys come by another way: requests without keys would be refused, and
 * nobody would know why. */
static ff_status check_other_ways(ff_error *error) {
    static const char *const ways[] = {"credential_process", "sso_session", "sso_start_url",
                                       "role_arn"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *value;
        bool there;
        FF_TRY(configured(&value, ways[i], &there, error));
        const bool has = value != NULL;
        free(value);
        if (has)
            return ff_fail(error, FF_USAGE,
                           "the profile %s has %s, which is not read here; wanted keys, as set by: "
                           "eval \"$(aws configure export-credentials --profile %s --format env)\"",
                           profile_name(), ways[i], profile_name());
    }
    return FF_OK;
}

ff_status ff_credentials_region(char **region, ff_error *error) {
    bool there;
    const char *given = setting("AWS_REGION");
    if (!given) given = setting("AWS_DEFAULT_REGION");
    if (given) return ff_copy_string(region, given, error);
    FF_TRY(configured(region, "region", &there, error));
    return *region ? FF_OK : ff_copy_string(region, "us-east-1", error);
}

ff_status ff_credentials_endpoint(char **endpoint, ff_error *error) {
    bool there;
    const char *given = setting("AWS_ENDPOINT_URL_S3");
    if (!given) given = setting("AWS_ENDPOINT_URL");
    if (given) return ff_copy_string(endpoint, given, error);
    return configured(endpoint, "endpoint_url", &there, error);
}

/* ---- keys that a service hands out ---------------------------------------------------------- */

/* The text between `begin` and the next `end` after it; NULL = there is none. JSON's strings and
 * XML's elements of these answers hold no escapes. */
static ff_status between(char **value, const char *text, const char *begin, const char *end,
                         ff_error *error) {
    const char *at = strstr(text, begin), *stop;
    *value = NULL;
    if (!at) return FF_OK;
    at += strlen(begin);
    at += strspn(at, " \t\r\n:");
    if (*end == '"' && *at++ != '"') return FF_OK;
    stop = strstr(at, end);
    return stop ? ff_copy_bytes(value, at, (size_t)(stop - at), error) : FF_OK;
}

/* "2026-01-31T12:00:00Z" as seconds since 1970. */
static int64_t seconds_of(const char *text) {
    struct tm time = {0};
    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &time) ? (int64_t)timegm(&time) : 0;
}

/* Keys from an answer in JSON (`json`) or XML. */
static ff_status take_answer(ff_credentials *credentials, const char *text, bool json,
                             const char *from, ff_error *error) {
    static const char *const names[][2] = {{"\"AccessKeyId\"", "<AccessKeyId>"},
                                           {"\"SecretAccessKey\"", "<SecretAccessKey>"},
                                           {"\"Token\"", "<SessionToken>"},
                                           {"\"Expiration\"", "<Expiration>"}};
    char *expiration = NULL;
    char **values[] = {&credentials->key, &credentials->secret, &credentials->token, &expiration};
    ff_status status = FF_OK;
    for (int i = 0; i < 4 && status == FF_OK; i++)
        status = between(values[i], text, names[i][json ? 0 : 1], json ? "\"" : "<", error);
    credentials->expires = seconds_of(expiration);
    free(expiration);
    if (status == FF_OK && (!credentials->key || !credentials->secret))
        status = ff_fail(error, FF_FAILED, "%s: answers without keys", from);
    return status;
}

/* Sends a request without keys; a text of the answer, ending with a zero byte. */
static ff_status ask(ff_buffer *answer, const char *method, const char *url, const char *header,
                     double timeout_s, ff_error *error) {
    ff_client *client;
    ff_response response;
    FF_TRY(ff_client_create(&client, NULL, timeout_s, NULL, error));
    const ff_request request = {.method = method,
                                .url = url,
                                .header = header,
                                .what = url,
                                .text = answer,
                                .limit = ANSWER_BYTES};
    ff_status status = ff_request_send(client, &request, &response, error);
    ff_client_destroy(&client);
    return status == FF_OK ? ff_buffer_add(answer, "", 1, error) : status;
}

static ff_status from_web_identity(ff_credentials *credentials, ff_error *error) {
    const char *path = setting("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = setting("AWS_ROLE_ARN");
    const char *session = setting("AWS_ROLE_SESSION_NAME"), *own = setting("AWS_ENDPOINT_URL_STS");
    ff_buffer token = {0}, url = {0}, answer = {0};
    char *region = NULL;
    ff_status status;
    FF_TRY_DONE(ff_read_whole(&token, path, ANSWER_BYTES, error));
    token.bytes[strcspn(token.bytes, "\r\n")] = 0;
    FF_TRY_DONE(ff_credentials_region(&region, error));
    FF_TRY_DONE(own ? ff_buffer_printf(&url, error, "%s", own)
                    : ff_buffer_printf(&url, error, "https://sts.%s.amazonaws.com", region));
    FF_TRY_DONE(ff_buffer_printf(
        &url, error, "/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName="));
    FF_TRY_DONE(ff_url_encode(&url, session ? session : "ffpack", false, error));
    FF_TRY_DONE(ff_buffer_printf(&url, error, "&RoleArn="));
    FF_TRY_DONE(ff_url_encode(&url, role, false, error));
    FF_TRY_DONE(ff_buffer_printf(&url, error, "&WebIdentityToken="));
    FF_TRY_DONE(ff_url_encode(&url, token.bytes, false, error));
    FF_TRY_DONE(ff_buffer_add(&url, "", 1, error));
    FF_TRY_DONE(ask(&answer, "GET", url.bytes, NULL, 30, error));
    status = take_answer(credentials, answer.bytes, false, "AWS's security token service", error);
done:
    if (status == FF_IO && url.bytes)
        url.bytes[strcspn(url.bytes, "?")] = 0; /* a message must not show the token */
    if (status == FF_IO && error)
        status = ff_fail(error, FF_IO,
                         "keys by AWS_WEB_IDENTITY_TOKEN_FILE: %s: no answer, or a refusal",
                         url.bytes ? url.bytes : path);
    free(region);
    ff_buffer_free(&token);
    ff_buffer_free(&url);
    ff_buffer_free(&answer);
    return status;
}

static ff_status from_container(ff_credentials *credentials, ff_error *error) {
    const char *relative = setting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               *full = setting("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = setting("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
               *file = setting("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    ff_buffer answer = {0}, read = {0};
    char *url = NULL, *header = NULL;
    ff_status status;
    FF_TRY_DONE(relative ? ff_format(&url, error, CONTAINER_URL "%s", relative)
                         : ff_copy_string(&url, full, error));
    if (file) FF_TRY_DONE(ff_read_whole(&read, file, ANSWER_BYTES, error));
    if (file) read.bytes[strcspn(read.bytes, "\r\n")] = 0;
    if (file || token)
        FF_TRY_DONE(ff_format(&header, error, "Authorization: %s", file ? read.bytes : token));
    FF_TRY_DONE(ask(&answer, "GET", url, header, 5, error));
    status = take_answer(credentials, answer.bytes, true, url, error);
done:
    free(url);
    free(header);
    ff_buffer_free(&answer);
    ff_buffer_free(&read);
    return status;
}

/* No failure if there is no such service: the machine is not one of AWS's. */
static ff_status from_instance(ff_credentials *credentials, ff_error *error) {
    static const char roles[] = "/latest/meta-data/iam/security-credentials/";
    const char *own = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
               *server = own ? own : METADATA_URL;
    const int slash = (int)strlen(server) - (server[strlen(server) - 1] == '/');
    ff_buffer token = {0}, role = {0}, answer = {0};
    char *url = NULL, *header = NULL;
    ff_status status;
    FF_TRY_DONE(ff_format(&url, error, "%.*s/latest/api/token", slash, server));
    if (ask(&token, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", 1, NULL) != FF_OK)
        goto none;
    free(url), url = NULL;
    FF_TRY_DONE(ff_format(&header, error, "X-aws-ec2-metadata-token: %s", token.bytes));
    FF_TRY_DONE(ff_format(&url, error, "%.*s%s", slash, server, roles));
    if (ask(&role, "GET", url, header, 1, NULL) != FF_OK) goto none;
    role.bytes[strcspn(role.bytes, "\r\n")] = 0;
    free(url), url = NULL;
    FF_TRY_DONE(ff_format(&url, error, "%.*s%s%s", slash, server, roles, role.bytes));
    FF_TRY_DONE(ask(&answer, "GET", url, header, 5, error));
    status = take_answer(credentials, answer.bytes, true, url, error);
    goto done;
none:
    status = FF_OK;
done:
    free(url);
    free(header);
    ff_buffer_free(&token);
    ff_buffer_free(&role);
    ff_buffer_free(&answer);
    return status;
}

/* ---- all in their order --------------------------------------------------------------------- */

static ff_status from_environment(ff_credentials *credentials, ff_error *error) {
    FF_TRY(ff_copy_string(&credentials->key, setting("AWS_ACCESS_KEY_ID"), error));
    FF_TRY(ff_copy_string(&credentials->secret, setting("AWS_SECRET_ACCESS_KEY"), error));
    if (!setting("AWS_SESSION_TOKEN")) return FF_OK;
    return ff_copy_string(&credentials->token, setting("AWS_SESSION_TOKEN"), error);
}

static ff_status find(ff_credentials *credentials, ff_error *error) {
    if (setting("AWS_ACCESS_KEY_ID") && setting("AWS_SECRET_ACCESS_KEY"))
        return from_environment(credentials, error);
    FF_TRY(from_files(credentials, error));
    if (credentials->key) return FF_OK;
    if (setting("AWS_WEB_IDENTITY_TOKEN_FILE") && setting("AWS_ROLE_ARN"))
        return from_web_identity(credentials, error);
    FF_TRY(check_other_ways(error));
    if (setting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
        setting("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
        return from_container(credentials, error);
    const char *disabled = setting("AWS_EC2_METADATA_DISABLED");
    if (disabled && !strcasecmp(disabled, "true")) return FF_OK;
    return from_instance(credentials, error);
}

ff_status ff_credentials_find(ff_credentials *credentials, ff_error *error) {
    *credentials = (ff_credentials){0};
    const ff_status status = find(credentials, error);
    if (status != FF_OK) ff_credentials_free(credentials);
    return status;
}
