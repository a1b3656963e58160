#include "train/step/step_timer.h"

ff_status ff_step_timer_create(ff_step_timer *timer, ff_compute *compute, uint32_t every,
                               ff_error *error) {
    ff_device *device = compute->device;
    *timer = (ff_step_timer){.compute = compute, .every = every};
    ff_event **events[] = {&timer->before, &timer->begun, &timer->ended};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        FF_TRY(device->table->event_create(device, events[i], true, error));
    return FF_OK;
}

void ff_step_timer_destroy(ff_step_timer *timer) {
    if (!timer->compute) return;
    ff_device *device = timer->compute->device;
    ff_event *events[] = {timer->before, timer->begun, timer->ended};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        device->table->event_destroy(device, events[i]);
}

void ff_step_timer_restart(ff_step_timer *timer) {
    timer->next = timer->running = false;
    timer->times = (ff_step_times){0};
}

ff_status ff_step_timer_begun(ff_step_timer *timer, ff_error *error) {
    const ff_compute *compute = timer->compute;
    return compute->device->table->event_record_external(compute->device, timer->begun,
                                                         compute->stream, error);
}

/* Adds the timed step, if it has finished. */
static void take(ff_step_timer *timer) {
    ff_device *device = timer->compute->device;
    uint64_t whole, wait;
    if (!timer->running || !device->table->event_done(device, timer->ended)) return;
    timer->running = false;
    if (device->table->elapsed(device, timer->before, timer->ended, &whole, NULL) != FF_OK ||
        device->table->elapsed(device, timer->before, timer->begun, &wait, NULL) != FF_OK)
        return;
    timer->times.steps++;
    timer->times.step_ns += whole;
    timer->times.wait_ns += wait;
}

static ff_status record(const ff_step_timer *timer, ff_event *event, ff_error *error) {
    const ff_compute *compute = timer->compute;
    return compute->device->table->event_record(compute->device, event, compute->stream, error);
}

ff_status ff_step_timer_end(ff_step_timer *timer, uint64_t number, bool timed, ff_error *error) {
    if (timed) {
        timer->running = true;
        return record(timer, timer->ended, error);
    }
    take(timer);
    /* not the first steps, which may load kernels and capture graphs */
    timer->next = !timer->running && (number + 1) % timer->every == 4;
    return timer->next ? record(timer, timer->before, error) : FF_OK;
}

ff_step_times ff_step_timer_measure(ff_step_timer *timer) {
    take(timer);
    const ff_step_times times = timer->times;
    timer->times = (ff_step_times){0};
    return times;
}
