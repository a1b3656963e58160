#include "train/compute/cuda/timed_choice.h"

#include "format/base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { TOO_SLOW = 3 };

typedef struct state {
    const ff_choice *choice;
    double end, compile_left;
    double *seconds; /* [count]: the fastest run; INFINITY = cannot run, -1 = not tried */
    double best;     /* of all runs */
    bool lost;       /* nothing runs any more */
} state;

static void finish(const state *s, int candidate) {
    if (s->choice->finished) s->choice->finished(s->choice->context, candidate);
}

/* False: the candidate was not tried because the bound is used up, or it cannot be compiled. */
static bool compile(state *s, int candidate) {
    const ff_choice *c = s->choice;
    if (s->compile_left <= 0 && s->best < INFINITY) return false;
    const double began = c->now(c->context);
    const bool made = c->compile(c->context, candidate);
    const double took = c->now(c->context) - began;
    s->compile_left -= took;
    s->end += took;
    return made;
}

static void try_candidate(state *s, int candidate) {
    const ff_choice *c = s->choice;
    if (c->uncompiled && c->uncompiled[candidate] && !compile(s, candidate)) {
        s->seconds[candidate] = INFINITY;
        return;
    }
    double fastest = c->run(c->context, candidate);
    if (fastest >= 0 && fastest <= TOO_SLOW * s->best)
        for (int i = 0; i < c->repeats && c->now(c->context) < s->end; i++) {
            double once = c->run(c->context, candidate);
            if (!(once >= 0)) {
                fastest = once;
                break;
            }
            fastest = fmin(fastest, once);
        }
    s->lost = isnan(fastest);
    s->seconds[candidate] = fastest >= 0 ? fastest : INFINITY;
    s->best = fmin(s->best, s->seconds[candidate]);
    finish(s, candidate);
}

static bool may_go_on(const state *s) {
    if (s->lost) return false;
    return s->best == INFINITY || s->choice->now(s->choice->context) < s->end;
}

static bool first_of_engine(const ff_choice *c, int candidate) {
    for (int i = 0; i < candidate; i++)
        if (c->engines[i] == c->engines[candidate]) return false;
    return true;
}

/* The fastest candidate so far whose engine is not `without`; -1 if there is none. */
static int fastest(const state *s, const int64_t *without) {
    int best = -1;
    for (int i = 0; i < s->choice->count; i++) {
        if (s->seconds[i] < 0 || s->seconds[i] == INFINITY) continue;
        if (without && s->choice->engines[i] == *without) continue;
        if (best < 0 || s->seconds[i] < s->seconds[best]) best = i;
    }
    return best;
}

ff_status ff_choose(const ff_choice *choice, int *best, double *seconds, ff_error *error) {
    state s = {.choice = choice, .best = INFINITY};
    *best = -1;
    s.end = choice->now(choice->context) + choice->budget_seconds;
    s.compile_left = choice->compile_seconds;
    FF_TRY(
        ff_alloc(&s.seconds, (uint64_t)choice->count, sizeof *s.seconds, "engines' times", error));
    for (int i = 0; i < choice->count; i++) s.seconds[i] = -1;
    for (int i = 0; i < choice->count && may_go_on(&s); i++)
        if (first_of_engine(choice, i)) try_candidate(&s, i);
    int first = fastest(&s, NULL);
    int second = first < 0 ? -1 : fastest(&s, &choice->engines[first]);
    for (int i = 0; i < choice->count && may_go_on(&s); i++)
        if (s.seconds[i] == -1 && (first < 0 || choice->engines[i] == choice->engines[first] ||
                                   (second >= 0 && choice->engines[i] == choice->engines[second])))
            try_candidate(&s, i);
    *best = s.lost ? -1 : fastest(&s, NULL);
    *seconds = *best < 0 ? 0 : s.seconds[*best];
    free(s.seconds);
    return FF_OK;
}

/* The number of shares for a net whose convolutions were not counted, and at the end of a net whose
 * count was too low. */
enum { UNKNOWN = 8, LAST = 4 };

double ff_choice_share(const ff_choice_budget *budget, double left) {
    const int to_come = budget->expected - budget->asked + 1;
    const int shares = budget->expected <= 0 ? UNKNOWN : to_come > LAST ? to_come : LAST;
    return left > 0 ? left / shares : 0;
}
