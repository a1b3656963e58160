#include "format/storage/credentials.h"

#include "format/base/read.h"
#include "format/storage/profile.h"
#include "format/storage/request.h"
#include "format/storage/url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

/* As the AWS tools have it, which know both variables, the older one first. */
static const char *profile_variable(void) {
    return setting("AWS_DEFAULT_PROFILE") ? "AWS_DEFAULT_PROFILE" : "AWS_PROFILE";
}

static const char *profile_name(void) {
    const char *name = setting(profile_variable());
    return name ? name : "default";
}

enum { CREDENTIALS, CONFIG };
static const struct {
    const char *variable, *name;
} files[] = {{"AWS_SHARED_CREDENTIALS_FILE", "credentials"}, {"AWS_CONFIG_FILE", "config"}};

/* The path of ~/.aws/NAME, or of the file that a variable names. */
static ff_status file_path(char **path, int file, ff_error *error) {
    const char *home = setting("HOME"), *given = setting(files[file].variable);
    if (given && strncmp(given, "~/", 2) != 0) return ff_copy_string(path, given, error);
    return ff_format(path, error, "%s/%s%s", home ? home : "", given ? given + 2 : ".aws/",
                     given ? "" : files[file].name);
}

/* *value = a setting of a section of one of the files, or NULL. */
static ff_status value_in(char **value, int file, const ff_profile *section, const char *within,
                          const char *name, bool *there, ff_error *error) {
    char *path;
    ff_buffer text = {0};
    *value = NULL;
    FF_TRY(file_path(&path, file, error));
    ff_status status = FF_OK;
    if (access(path, F_OK) == 0) status = ff_read_whole(&text, path, FILE_BYTES, error);
    if (status == FF_OK && text.bytes)
        status = ff_profile_value(value, text.bytes, section, within, name, there, error);
    free(path);
    ff_buffer_free(&text);
    return status;
}

/* The same of the profile. In the file config only [default] has no word before its name. */
static ff_status profile_value(char **value, int file, const char *name, bool *there,
                               ff_error *error) {
    const char *profile = profile_name();
    const ff_profile section = {"profile", profile,
                                file == CREDENTIALS || !strcmp(profile, "default")};
    return value_in(value, file, &section, NULL, name, there, error);
}

/* The same of both files, the credentials' first. */
static ff_status configured(char **value, const char *name, bool *there, ff_error *error) {
    FF_TRY(profile_value(value, CREDENTIALS, name, there, error));
    return *value ? FF_OK : profile_value(value, CONFIG, name, there, error);
}

/* The keys of a profile are those of the one file that has its first: those of the other file may
 * be another user's. */
static ff_status from_file(ff_credentials *credentials, int file, bool *there, ff_error *error) {
    FF_TRY(profile_value(&credentials->key, file, "aws_access_key_id", there, error));
    if (!credentials->key) return FF_OK;
    FF_TRY(profile_value(&credentials->secret, file, "aws_secret_access_key", there, error));
    if (!credentials->secret)
        return ff_fail(error, FF_USAGE,
                       "the profile %s has aws_access_key_id without aws_secret_access_key",
                       profile_name());
    FF_TRY(profile_value(&credentials->token, file, "aws_security_token", there, error));
    if (credentials->token) return FF_OK;
    return profile_value(&credentials->token, file, "aws_session_token", there, error);
}

/* Refuses a profile whose keys come by another way: requests with other keys or without any would
 * be refused, and nobody would know why. */
static ff_status check_other_way(const char *way, ff_error *error) {
    char *value;
    bool there;
    FF_TRY(configured(&value, way, &there, error));
    const bool has = value != NULL;
    free(value);
    if (!has) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "the profile %s has %s, which is not read here; wanted keys, as set by: "
                   "eval \"$(aws configure export-credentials --profile %s --format env)\"",
                   profile_name(), way, profile_name());
}

/* What precedes the keys of a profile. */
static ff_status check_other_ways(ff_error *error) {
    FF_TRY(check_other_way("role_arn", error));
    FF_TRY(check_other_way("sso_session", error));
    return check_other_way("sso_start_url", error);
}

static ff_status from_files(ff_credentials *credentials, ff_error *error) {
    bool there = false;
    FF_TRY(from_file(credentials, CREDENTIALS, &there, error));
    if (credentials->key) return FF_OK;
    FF_TRY(check_other_way("credential_process", error));
    FF_TRY(from_file(credentials, CONFIG, &there, error));
    if (there || !setting(profile_variable())) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s=%s: ~/.aws/credentials and ~/.aws/config have no such profile",
                   profile_variable(), profile_name());
}

ff_status ff_credentials_region(char **region, ff_error *error) {
    bool there;
    const char *given = setting("AWS_REGION");
    if (!given) given = setting("AWS_DEFAULT_REGION");
    if (given) return ff_copy_string(region, given, error);
    FF_TRY(configured(region, "region", &there, error));
    return *region ? FF_OK : ff_copy_string(region, "us-east-1", error);
}

/* endpoint_url of s3 in the section [services NAME] that the profile names. */
static ff_status services_endpoint(char **endpoint, ff_error *error) {
    char *name;
    bool there = false;
    *endpoint = NULL;
    FF_TRY(configured(&name, "services", &there, error));
    if (!name) return FF_OK;
    const ff_profile section = {"services", name, false};
    there = false;
    ff_status status = value_in(endpoint, CONFIG, &section, "s3", "endpoint_url", &there, error);
    if (status == FF_OK && !there)
        status = ff_fail(error, FF_USAGE,
                         "the profile %s has services = %s, and ~/.aws/config has no such section",
                         profile_name(), name);
    free(name);
    return status;
}

ff_status ff_credentials_endpoint(char **endpoint, ff_error *error) {
    bool there;
    const char *given = setting("AWS_ENDPOINT_URL_S3"),
               *ignored = setting("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    *endpoint = NULL;
    if (ignored && !strcasecmp(ignored, "true")) return FF_OK;
    if (!given) given = setting("AWS_ENDPOINT_URL");
    if (given) return ff_copy_string(endpoint, given, error);
    FF_TRY(services_endpoint(endpoint, error));
    return *endpoint ? FF_OK : configured(endpoint, "endpoint_url", &there, error);
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
    FF_TRY_DONE(
        own ? ff_buffer_printf(&url, error, "%s", own)
            : ff_buffer_printf(&url, error, "https://sts.%s.%s", region, ff_url_domain(region)));
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
    const char *secret = setting("AWS_SECRET_ACCESS_KEY"), *token = setting("AWS_SECURITY_TOKEN");
    if (!secret)
        return ff_fail(error, FF_USAGE, "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY");
    FF_TRY(ff_copy_string(&credentials->key, setting("AWS_ACCESS_KEY_ID"), error));
    FF_TRY(ff_copy_string(&credentials->secret, secret, error));
    if (!token) token = setting("AWS_SESSION_TOKEN");
    return token ? ff_copy_string(&credentials->token, token, error) : FF_OK;
}

static ff_status find(ff_credentials *credentials, ff_error *error) {
    if (setting("AWS_ACCESS_KEY_ID")) return from_environment(credentials, error);
    const bool identity = setting("AWS_WEB_IDENTITY_TOKEN_FILE") && setting("AWS_ROLE_ARN");
    if (identity) return from_web_identity(credentials, error);
    FF_TRY(check_other_ways(error));
    FF_TRY(from_files(credentials, error));
    if (credentials->key) return FF_OK;
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
