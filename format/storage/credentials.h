/* The keys of S3, found where the AWS tools find them, in this order:
 *
 *   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   2. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: exchanged at AWS's security token service
 *   3. the profile AWS_DEFAULT_PROFILE or AWS_PROFILE (or "default") of ~/.aws/credentials and
 *      ~/.aws/config, or of the files AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE
 *   4. AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI: the agent of a container
 *   5. the role of the instance, from 169.254.169.254 (IMDSv2), unless AWS_EC2_METADATA_DISABLED
 *
 * Without any, requests are anonymous. request.c asks for keys again before they expire.
 * https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
 * Private to format/storage. */
#ifndef FF_STORAGE_CREDENTIALS_H
#define FF_STORAGE_CREDENTIALS_H

#include "format/base/memory.h"

typedef struct ff_credentials {
    char *key, *secret; /* NULL: anonymous */
    char *token;        /* of a session; or NULL */
    int64_t expires;    /* seconds since 1970; 0 = never */
} ff_credentials;

/* Sends requests in cases 2, 4 and 5. FF_USAGE for a profile that does not exist, or whose keys
 * come by another way. */
FF_MUST_USE ff_status ff_credentials_find(ff_credentials *credentials, ff_error *error);
void ff_credentials_free(ff_credentials *credentials);

/* The region: AWS_REGION, AWS_DEFAULT_REGION, that of the profile, or "us-east-1"; allocated. */
FF_MUST_USE ff_status ff_credentials_region(char **region, ff_error *error);
/* The endpoint: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, endpoint_url of s3 in the profile's
 * services, that of the profile, or NULL; allocated. */
FF_MUST_USE ff_status ff_credentials_endpoint(char **endpoint, ff_error *error);

#endif
