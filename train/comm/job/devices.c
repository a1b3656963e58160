#include "train/comm/job/devices.h"

#include "train/comm/job/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ff_status parse_device(ff_rank_devices *devices, const char *text, size_t length,
                              ff_error *error) {
    char word[16] = "", *name, *end;
    if (devices->count == FF_RANK_DEVICES)
        return ff_fail(error, FF_USAGE, "--dp: more than %d replicas", FF_RANK_DEVICES);
    name = devices->name[devices->count];
    if (length && length < sizeof word) memcpy(word, text, length);
    const char *number = strncmp(word, "cuda:", 5) == 0 ? word + 5 : word;
    const unsigned long ordinal = strtoul(number, &end, 10);
    if (strcmp(word, "cpu") == 0)
        snprintf(name, sizeof devices->name[0], "cpu");
    else if (*number >= '0' && *number <= '9' && !*end && ordinal < 1024)
        snprintf(name, sizeof devices->name[0], "cuda:%lu", ordinal);
    else
        return ff_fail(
            error, FF_USAGE,
            "--dp: '%.*s' is not a device; devices are numbers of GPUs, as in 0,1,2, or cpu",
            (int)length, text);
    for (int i = 0; i < devices->count && strcmp(name, "cpu") != 0; i++)
        if (strcmp(devices->name[i], name) == 0)
            return ff_fail(error, FF_USAGE,
                           "--dp: device %lu is named twice; 2x%lu puts two replicas on it",
                           ordinal, ordinal);
    if (devices->count && (strcmp(name, "cpu") == 0) != (strcmp(devices->name[0], "cpu") == 0))
        return ff_fail(error, FF_USAGE, "--dp: replicas are on GPUs or on the CPU, not on both");
    devices->count++;
    return FF_OK;
}

/* "2x0": replicas that share a device. */
static ff_status repeat_last(ff_rank_devices *devices, unsigned long copies, ff_error *error) {
    if (copies < 1 || copies > (unsigned long)(FF_RANK_DEVICES - devices->count + 1))
        return ff_fail(error, FF_USAGE, "--dp: %lu replicas on a device; 1 to %d are possible",
                       copies, FF_RANK_DEVICES);
    for (; copies > 1; copies--, devices->count++)
        memcpy(devices->name[devices->count], devices->name[devices->count - 1],
               sizeof devices->name[0]);
    return FF_OK;
}

static ff_status parse_balance(ff_rank_devices *devices, const char *balance, ff_error *error) {
    if (ff_shares_parse(balance, devices->count, devices->cuts)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--dp-balance %s: %d replicas need one number each, from 1 on, the parts of a "
                   "batch, as in 2,3,3; or auto",
                   balance, devices->count);
}

ff_status ff_rank_devices_parse(ff_rank_devices *devices, const char *list, const char *balance,
                                ff_error *error) {
    *devices = (ff_rank_devices){0};
    if (!list && balance)
        return ff_fail(error, FF_USAGE, "--dp-balance needs --dp, the devices of the replicas");
    while (list) {
        const size_t times = strspn(list, "0123456789");
        const unsigned long copies = list[times] == 'x' ? strtoul(list, NULL, 10) : 1;
        if (list[times] == 'x') list += times + 1;
        const size_t length = strcspn(list, ",");
        FF_TRY(parse_device(devices, list, length, error));
        FF_TRY(repeat_last(devices, copies, error));
        list = list[length] ? list + length + 1 : NULL;
    }
    for (int i = 0; i <= devices->count; i++) devices->cuts[i] = (uint32_t)i;
    return balance ? parse_balance(devices, balance, error) : FF_OK;
}
