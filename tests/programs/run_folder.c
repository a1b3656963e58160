/* `run_folder DATA FOLDER [EPOCHS [RATE]]`: trains a small net on the splits of DATA, in the order of their
 * samples; FOLDER gets
 * log.jsonl, events and what record.h says. */
#include "train/report.h"
#include "train/run.h"

#include <stdio.h>
#include <stdlib.h>

static ff_status run(char **argv, int argc, ff_error *error) {
    ff_trainer_options options = ff_trainer_default_options();
    ff_trainer *trainer = NULL;
    ff_report *report = NULL;
    char log[1000], events[1000];
    ff_status status;
    snprintf(log, sizeof log, "%s/log.jsonl", argv[2]);
    snprintf(events, sizeof events, "%s/events", argv[2]);
    options.data = argv[1];
    options.model = "smallnet";
    options.batch = 16;
    options.threads = 1;
    options.augment = "none";
    options.order = FF_ORDER_SEQUENTIAL;
    options.epochs = argc > 3 ? atoi(argv[3]) : 3;
    if (argc > 4) options.learning_rate = atof(argv[4]);
    FF_TRY_DONE(ff_report_create(&report, log, stdout, stdout, error));
    FF_TRY_DONE(ff_report_record(report, events, argv[2], error));
    FF_TRY_DONE(ff_trainer_create(&trainer, &options, error));
    FF_TRY_DONE(ff_run(trainer, report, error));
done:
    ff_trainer_destroy(&trainer);
    ff_report_destroy(&report);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    if (argc < 3 || run(argv, argc, &error) != FF_OK) {
        fprintf(stderr, "run_folder: %s\n", argc < 3 ? "DATA FOLDER" : error.message);
        return 1;
    }
    return 0;
}
