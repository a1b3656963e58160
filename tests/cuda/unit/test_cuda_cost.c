/* The counted cost of a step (train/cost/cost.h): nodes against recordings of the same step on the
 * simulated GPU, row by row; bytes and operations against numbers computed by hand; times against
 * the formula and GPUs' data sheets. */
#include "tests/unit/cost_nets.h"

#include "loader/cuda/kernels.h"
#include "tests/unit/format_set.h"
#include "train/machine/planned_device.h"
#include "train/net/groups.h"
#include "train/net/models/models.h"
#include "train/step/feed.h"

/* ---- nodes ---- */

/* The number of nodes in the capture where each part begins. */
typedef struct seen {
    ff_stream *stream;
    int rows;
    struct {
        ff_mark mark;
        int op, nodes;
    } row[MOST_ROWS];
} seen;

static void see(void *context, ff_mark mark, int op) {
    seen *s = context;
    assert_true(s->rows < MOST_ROWS);
    s->row[s->rows].mark = mark;
    s->row[s->rows].op = op;
    s->row[s->rows++].nodes = ff_device_sim_nodes(s->stream);
}

static void capture_step(net *n, bool muon, seen *s, int *nodes) {
    ff_compute *compute = n->compute;
    ff_device *device = compute->device;
    const ff_update_options options = update_options(muon);
    const ff_compute_watch watch = {.begins = see, .context = s};
    const ff_batch batch = {.images = s, .labels = s, .label_dtype = FF_I32}; /* nothing runs */
    ff_update *update;
    ff_recording *recording;
    ff_outcome ring;
    *s = (seen){.stream = compute->stream};
    assert_ok(ff_update_create(&update, &n->store, &options, error));
    assert_ok(ff_compute_wait(compute, error));
    assert_ok(device->table->capture_begin(device, compute->stream, error));
    compute->watch = &watch;
    ff_plan_enqueue(n->plan, &batch, true, &ring, 1, NULL);
    ff_update_enqueue(update, &ring, 1);
    compute->watch = NULL;
    *nodes = ff_device_sim_nodes(compute->stream);
    assert_ok(device->table->capture_end(device, compute->stream, &recording, error));
    device->table->recording_destroy(device, recording);
    ff_update_destroy(&update);
    assert_ok(ff_compute_wait(compute, error));
}

/* A net of models/ without initial parameters: nothing runs, and a large net has many. */
static void open_bare(net *n, const net_form *form, ff_compute *compute) {
    const ff_model_options options = {.name = form->model,
                                      .stem = FF_STEM_CIFAR,
                                      .channels = form->channels,
                                      .height = form->side,
                                      .width = form->side,
                                      .classes = 4};
    int k = 0;
    while (strcmp(ff_net_at(k)->name, form->model) != 0) k++;
    *n = (net){.compute = compute};
    assert_ok(ff_graph_create(&n->graph, form->channels, form->side, form->side, error));
    ff_net_at(k)->build(n->graph, &options);
    assert_ok(ff_graph_check(n->graph, error));
    assert_ok(ff_plan_create(&n->plan, n->graph, compute, BATCH, true, NULL, NULL, error));
    assert_ok(
        ff_store_create(&n->store, n->graph, compute, n->plan->convs, n->plan->tensors, error));
    n->plan->store = &n->store;
}

static void check_nodes(const net_form *form, const ff_library_table *library,
                        ff_precision precision) {
    machine m;
    net n;
    ff_groups groups = {0};
    ff_costs costs;
    seen *s = calloc(1, sizeof *s);
    int nodes;
    assert_non_null(s);
    open_machine(&m, library, 0, 1);
    open_bare(&n, form, open_cuda(&m, precision));
    if (form->muon) assert_ok(ff_groups_create(&groups, &n.store, cost_groups, 2, error));
    n.store.groups = &groups;
    const ff_cost_options options = {0};
    assert_ok(ff_costs_count(&costs, n.plan, &options, error));
    capture_step(&n, form->muon, s, &nodes);
    assert_int_equal(costs.row_count, s->rows);
    for (int i = 0; i < s->rows; i++) {
        const ff_cost_row *row = &costs.rows[i];
        const int found = (i + 1 < s->rows ? s->row[i + 1].nodes : nodes) - s->row[i].nodes;
        const int counted = ff_cost_of_row(&costs, row).nodes;
        if (found != counted)
            print_message("%s, %s, %s: %s %s: %d nodes, counted %d\n", form->model, library->name,
                          ff_cost_pass_name(row->pass), row->layer, row->what, found, counted);
        assert_int_equal(found, counted);
        assert_int_equal(row->mark, s->row[i].mark);
        assert_int_equal(row->op, s->row[i].op);
    }
    assert_int_equal(ff_cost_of_pass(&costs, FF_COST_PASSES).nodes, nodes);
    ff_costs_free(&costs);
    ff_groups_destroy(&groups);
    close_net(&n);
    close_machine(&m);
    free(s);
}

/* Each part of a step has as many kernels and copies as a capture of it holds: in every net, with
 * fused convolutions and in pieces, folded norms, biases in f16 and f32, Muon. */
static void nodes_match_the_recordings(void **state) {
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        check_nodes(&forms[i], &ff_library_plain, FF_PRECISION_F16);
        check_nodes(&forms[i], &ff_library_plain_pieces, FF_PRECISION_F16);
        check_nodes(&forms[i], &ff_library_plain_pieces, FF_PRECISION_F32);
    }
}

/* ---- bytes and operations ---- */

typedef struct expected_row {
    const char *layer, *what;
    double bytes, matrix_flops;
    int nodes;
} expected_row;

static void check_row(const ff_costs *costs, ff_cost_pass pass, const expected_row *expected) {
    for (size_t i = 0; i < costs->row_count; i++) {
        const ff_cost_row *row = &costs->rows[i];
        if (row->pass != pass || strcmp(row->layer, expected->layer) != 0) continue;
        const ff_cost_piece sum = ff_cost_of_row(costs, row);
        if (strcmp(row->what, expected->what) != 0 || sum.bytes != expected->bytes ||
            sum.matrix_flops != expected->matrix_flops || sum.nodes != expected->nodes)
            print_message("%s %s: '%s', %.0f bytes, %.0f flops, %d nodes\n",
                          ff_cost_pass_name(pass), row->layer, row->what, sum.bytes,
                          sum.matrix_flops, sum.nodes);
        assert_string_equal(row->what, expected->what);
        assert_true(sum.bytes == expected->bytes);
        assert_true(sum.matrix_flops == expected->matrix_flops);
        assert_int_equal(sum.nodes, expected->nodes);
        return;
    }
    fail_msg("no row %s %s", ff_cost_pass_name(pass), expected->layer);
}

/* The residual net of train_nets.h, 3 x 3x16x12 in f16, with the bytes of every array: images 3 of
 * 8 channels 9216; stem 8x8x6 2304; p 8x4x3 576, its places 288; a, b 576, mask 36; c, d, s 20 of
 * 24 channels 2x2 576. Filters of 8: stem 25 taps 3200, a, b 1152; of 24: c 3456, d 10368, s 384.
 * The stride of s leaves a third of its input's pixels. */
static void bytes_are_by_hand(void **state) {
    (void)state;
    static const expected_row pieces_forward[] = {
        {"stem", "conv 5x5 /2", 9216 + 3200 + 2304, 2. * 144 * 8 * 25 * 8, 1},
        {"stemn", "norm, ReLU", 2304 + 2 * 2304, 0, 3},
        {"p", "max pool 3x3 /2", 2304 + 576 + 288, 0, 1},
        {"bn", "norm, add, ReLU", 576 + 3 * 576 + 36, 0, 3},
        {"s", "conv 1x1 /2", 192 + 384 + 576, 2. * 12 * 24 * 8, 1},
        {"fc", "linear", (3 + 8) * 24 * 2 + 3 * 8 * 4 + 2 * 3 * 8 * 4, 2. * 3 * 24 * 8, 2},
    };
    static const expected_row pieces_backward[] = {
        {"stem", "conv 5x5 /2", 9216 + 3200 + 2304, 2. * 144 * 8 * 25 * 8, 1},
        {"stemn", "norm, ReLU", 5 * 2304, 0, 3},
        /* the second of its two users' gradients is added to the first */
        {"p", "max pool 3x3 /2", 3 * 576 + 2304 + 576 + 288, 0, 2},
        /* two gradients arrive, the one of the sum is written */
        {"bn", "norm, add, ReLU", 7 * 576 + 36, 0, 3},
        {"s", "conv 1x1 /2", (192 + 384 + 576) + (576 + 384 + 576), 2 * 2. * 12 * 24 * 8, 2},
        {"fc", "linear", 2 * ((3 + 8) * 24 + 3 * 8) * 2 + 3 * 8 * 2, 2 * 2. * 3 * 24 * 8, 4},
    };
    /* The norms of a and c are fused into the convolutions after them; their sums come before. */
    static const expected_row fused_forward[] = {
        {"stem", "conv 5x5 /2, sums for the norm", 9216 + 3200 + 2304, 2. * 144 * 8 * 25 * 8, 1},
        {"stemn", "norm, ReLU, statistics made before", 2 * 2304, 0, 2},
        {"an", "norm, ReLU, scale alone", 0, 0, 2},
        {"b", "conv 3x3 /1, norm and ReLU before it, sums for the norm", 576 + 1152 + 576,
         2. * 36 * 8 * 9 * 8, 1},
    };
    static const expected_row fused_backward[] = {
        {"b", "conv 3x3 /1, with the norm before it", 2 * (576 + 1152 + 576) + 576,
         2 * 2. * 36 * 8 * 9 * 8, 2},
        {"an", "norm, ReLU, finish", 3 * 576, 0, 1},
    };
    const ff_library_table *libraries[] = {&ff_library_plain_pieces, &ff_library_plain};
    for (int fused = 0; fused < 2; fused++) {
        machine m;
        net n;
        ff_costs costs;
        open_machine(&m, libraries[fused], 0, 1);
        open_net_on(&n, build_residual, 3, 16, 12, 3, open_cuda(&m, FF_PRECISION_F16));
        const ff_cost_options options = {0};
        assert_ok(ff_costs_count(&costs, n.plan, &options, error));
        if (fused) {
            for (int i = 0; i < 4; i++) check_row(&costs, FF_COST_FORWARD, &fused_forward[i]);
            for (int i = 0; i < 2; i++) check_row(&costs, FF_COST_BACKWARD, &fused_backward[i]);
        } else {
            for (int i = 0; i < 6; i++) {
                check_row(&costs, FF_COST_FORWARD, &pieces_forward[i]);
                check_row(&costs, FF_COST_BACKWARD, &pieces_backward[i]);
            }
        }
        /* logits of 8, gradients of 2 bytes, labels of 4 three times with sums of 12 */
        const ff_cost_piece loss = ff_cost_of_pass(&costs, FF_COST_LOSS);
        assert_true(loss.bytes == 2 * 3 * 4 + 3 * 8 * (4 + 2) + 2 * 3 * 12);
        /* The block of parameters: 2 + 20 bytes an element of weights, 4 + 20 of channels. */
        const double weights = (double)n.store.weight_count;
        const double channels = (double)n.store.trained_count - weights;
        const ff_cost_piece update = ff_cost_of_pass(&costs, FF_COST_UPDATE);
        assert_true(update.bytes == weights * (2 + 20) + channels * (4 + 22));
        assert_int_equal(update.nodes, 3);
        ff_costs_free(&costs);
        close_net(&n);
        close_machine(&m);
    }
}

/* The depthwise convolution of the inverted net of train_nets.h, over 24 channels of 3x7x6 pixels,
 * is not a matrix product; its backward pass is one for dx, and for dw one that sums, one that ends
 * the sums and, in f16, a conversion. */
static void depthwise_is_by_hand(void **state) {
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        machine m;
        net n;
        ff_costs costs;
        const double one = (narrow ? 2 : 4) * (2 * 3 * 42 * 24 + 9 * 24);
        const expected_row rows[2] = {{"b", "conv 3x3 /1, 24 groups", one, 0, 1},
                                      {"b", "conv 3x3 /1, 24 groups", 2 * one, 0, 3 + narrow}};
        open_machine(&m, &ff_library_plain, 0, 1);
        open_net_on(&n, build_inverted, 3, 9, 8, 3,
                    open_cuda(&m, narrow ? FF_PRECISION_F16 : FF_PRECISION_F32));
        const ff_cost_options options = {0};
        assert_ok(ff_costs_count(&costs, n.plan, &options, error));
        check_row(&costs, FF_COST_FORWARD, &rows[0]);
        check_row(&costs, FF_COST_BACKWARD, &rows[1]);
        ff_costs_free(&costs);
        close_net(&n);
        close_machine(&m);
    }
}

/* Muon's banks in f16, the first of 64 filters of 3x3 over 24 channels, 64 x 216. For all together
 * two kernels that read the gradient, momentum and masters and write momentum and X twice, and the
 * end. For each shape three steps of A = X X', one copy (in the first step not of X), B, Y: 12
 * nodes. */
static void banks_are_by_hand(void **state) {
    (void)state;
    machine m;
    ff_model *model;
    ff_costs costs;
    open_machine(&m, &ff_library_plain, 0, 1);
    const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
    open_model(&model, &forms[1], FF_PRECISION_F16, &device);
    const ff_cost_options options = {0};
    assert_ok(ff_costs_count(&costs, ff_model_training_plan(model), &options, error));
    const ff_cost_row *row = &costs.rows[costs.row_count - 2];
    assert_string_equal(row->what, "Muon, 6 banks of 4 shapes");
    assert_int_equal(ff_cost_of_row(&costs, row).nodes, 2 + 4 * 12 + 1);
    /* rows and columns of the banks; layers.2.conv1 has 64 channels in, all others their own */
    static const double banks[6][2] = {{64, 216},   {64, 576},   {256, 576},
                                       {256, 2304}, {256, 2304}, {256, 2304}};
    double bytes = 0, flops = 0;
    for (int i = 0; i < 6; i++) {
        const double r = banks[i][0], e = r * banks[i][1];
        bytes += e * (2 + 4 + 4 + 4 + 2) + e * 6;
        bytes += 3 * (2 * (e + r * r) + 4 * r * r + 6 * r * r + 2 * (3 * e + r * r)) + 2 * 4 * e;
        bytes += e * (2 + 4 + 4 + 2);
        flops += 3 * (4 * r * e + 2 * r * r * r);
    }
    assert_true(ff_cost_of_row(&costs, row).bytes == bytes);
    assert_true(ff_cost_of_row(&costs, row).matrix_flops == flops);
    assert_int_equal(costs.pieces[row->first + 2].precision, FF_PRECISION_BF16);
    ff_costs_free(&costs);
    ff_model_destroy(&model);
    close_machine(&m);
}

/* ---- the batch ---- */

static void check_batch(ff_dtype dtype, const char *text, const char *what, double bytes) {
    set_spec set = plain_set(16);
    ff_feed *feed;
    machine m;
    net n;
    ff_costs costs;
    ff_recording *recording;
    set.dtype = dtype;
    set.height = set.width = 16;
    ff_dataset *dataset = open_new_set(&set);
    open_machine(&m, &ff_library_plain, 0, 1);
    ff_compute *compute = open_cuda(&m, FF_PRECISION_F16);
    open_bare(&n, &forms[2], compute);
    ff_feed_options how = {.loader = ff_loader_defaults(),
                           .compute = compute,
                           .kernels = &ff_loader_cuda_kernels,
                           .placement = FF_PLACEMENT_RESIDENT,
                           .quiet = true};
    how.loader.batch = BATCH;
    how.loader.height = how.loader.width = 16;
    assert_ok(ff_augment_parse(&how.loader.augment, text, error));
    assert_ok(ff_feed_create(&feed, dataset, &how, error));
    assert_ok(m.device->table->capture_begin(m.device, compute->stream, error));
    assert_ok(ff_feed_make(feed, compute->stream, error));
    const int nodes = ff_device_sim_nodes(compute->stream);
    assert_ok(m.device->table->capture_end(m.device, compute->stream, &recording, error));
    const ff_cost_options options = {.metadata = ff_dataset_metadata(dataset),
                                     .augment = &how.loader.augment};
    assert_ok(ff_costs_count(&costs, n.plan, &options, error));
    const ff_cost_piece sum = ff_cost_of_pass(&costs, FF_COST_BATCH);
    assert_int_equal(sum.nodes, nodes);
    if (sum.bytes != bytes) print_message("%s: %.0f bytes\n", text, sum.bytes);
    assert_true(sum.bytes == bytes);
    assert_string_equal(costs.rows[0].what, what);
    ff_costs_free(&costs);
    m.device->table->recording_destroy(m.device, recording);
    ff_feed_destroy(&feed);
    close_net(&n);
    close_machine(&m);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* 4 samples of 3x16x16 to 8 channels of f16: 64 bytes of parameters a row written and read, a label
 * read and written, a weight. In addition to the simple move, rows of f32 between the kernels. */
static void batches_are_counted(void **state) {
    (void)state;
    const double out = 4 * 256 * 8 * 2, params = 4 * 64, also = 4 * (8 + 4);
    const double values = 4 * 3 * 256 * 4;
    check_batch(FF_U8, "crop=2,flip", "gather", 4 * 768 + out + 2 * params + also);
    check_batch(FF_F16, "none", "gather", 4 * 1536 + out + 2 * params + also);
    check_batch(FF_U8, "rrc=16,jitter=0.4", "gather, resample, jitter",
                4 * 768 + out + 3 * params + also + 4 * values);
    check_batch(FF_U8, "flip,mixup", "gather, mix", 4 * 768 + out + 3 * params + also + 2 * values);
}

/* ---- GPUs and times ---- */

static void assert_near(double found, double wanted) {
    if (!(fabs(found - wanted) <= 0.005 * wanted)) print_message("%g, not %g\n", found, wanted);
    assert_true(fabs(found - wanted) <= 0.005 * wanted);
}

static void limits_match_the_data_sheets(void **state) {
    (void)state;
    /* A100-SXM4-80GB: 2039 GB/s, 312 TFLOP/s f16, 156 tf32, 19.5 f32. */
    ff_card card =
        ff_card_limits(&(ff_card_facts){"NVIDIA A100-SXM4-80GB", 80, 108, 1410000, 1593000, 0});
    assert_near(card.bytes_per_s, 2039e9);
    assert_near(card.matrix_flops[FF_PRECISION_F16], 312e12);
    assert_near(card.matrix_flops[FF_PRECISION_TF32], 156e12);
    assert_near(card.matrix_flops[FF_PRECISION_F32], 19.5e12);
    assert_near(card.f32_flops, 19.5e12);
    /* GeForce: f32 sums at half the rate; 71 TFLOP/s, tf32 and f32 35.6, 936 GB/s. */
    card = ff_card_limits(&(ff_card_facts){"NVIDIA GeForce RTX 3090", 86, 82, 1695000, 9751000, 0});
    assert_near(card.bytes_per_s, 936e9);
    assert_near(card.matrix_flops[FF_PRECISION_BF16], 71e12);
    assert_near(card.matrix_flops[FF_PRECISION_TF32], 35.6e12);
    assert_near(card.f32_flops, 35.6e12);
    /* H200; the driver's data about the bus takes precedence over the name. */
    card = ff_card_limits(&(ff_card_facts){"NVIDIA H200", 90, 132, 1980000, 3201000, 0});
    assert_near(card.bytes_per_s, 4.917e12);
    assert_near(card.matrix_flops[FF_PRECISION_F16], 1070.5e12);
    card = ff_card_limits(&(ff_card_facts){"NVIDIA H200", 90, 132, 1980000, 3201000, 3072});
    assert_near(card.bytes_per_s, 4.917e12 / 2);
    /* Turing has neither tf32 nor bf16. */
    card = ff_card_limits(&(ff_card_facts){"Tesla T4", 75, 40, 1590000, 5001000, 0});
    assert_near(card.matrix_flops[FF_PRECISION_F16], 65.1e12);
    assert_true(card.matrix_flops[FF_PRECISION_TF32] == 0);
    assert_false(ff_card_known(
        &(ff_card){.bytes_per_s = ff_card_limits(&(ff_card_facts){"x", 90, 1, 1, 1, 0}).bytes_per_s,
                   .f32_flops = 1}));
    card = ff_card_limits(&(ff_card_facts){"NVIDIA H200", 42, 132, 1980000, 3201000, 0});
    assert_false(ff_card_known(&card));
}

/* A piece takes the longest of the times for its bytes, its operations and its nodes. */
static void times_are_the_slowest_part(void **state) {
    (void)state;
    ff_cost_piece pieces[] = {
        {.bytes = 8e6, .matrix_flops = 4e8, .precision = FF_PRECISION_F16, .nodes = 1},
        {.bytes = 4e6, .matrix_flops = 8e8, .precision = FF_PRECISION_F16, .nodes = 1},
        {.bytes = 8, .matrix_flops = 8e8, .precision = FF_PRECISION_F32, .nodes = 1},
        {.bytes = 8, .f32_flops = 8e8, .nodes = 1},
        {.bytes = 8, .nodes = 3},
    };
    ff_cost_row row = {.pass = FF_COST_FORWARD, .count = 5};
    const ff_costs costs = {.rows = &row, .row_count = 1, .pieces = pieces, .piece_count = 5};
    ff_card card = {.bytes_per_s = 1e12, .f32_flops = 1e13};
    card.matrix_flops[FF_PRECISION_F16] = 1e14;
    card.matrix_flops[FF_PRECISION_F32] = 2e13;
    const double gaps = 3 * FF_CARD_NODE_US;
    assert_near(ff_cost_row_us(&costs, &row, &card, 0.8), 10 + 10 + 50 + 100 + gaps);
    assert_near(ff_cost_row_us(&costs, &row, &card, 0.4), 2 * (10 + 10 + 50 + 100) + gaps);
    assert_near(ff_cost_pass_us(&costs, FF_COST_PASSES, &card, 0.8), 170 + gaps);
    assert_true(ff_cost_pass_us(&costs, FF_COST_LOSS, &card, 0.8) == 0);
    card.bytes_per_s = 0;
    assert_true(ff_cost_row_us(&costs, &row, &card, 0.8) == 0);
}

/* A GPU that is only described has the same costs as a present one, and no device is used. */
static void a_described_gpu_costs_the_same(void **state) {
    (void)state;
    static const char description[] =
        "{\"deviceName\": \"A Card with H200\", \"totalGlobalMem\": 10000000000, \"deviceVer\": 900,"
        "\"multiProcessorCount\": 3, \"smClockRateKHz\": 1000000, \"memClockRateKHz\": 2000000}";
    machine m;
    ff_planned_device *planned;
    ff_model *here, *there;
    ff_costs a, b;
    open_machine(&m, &ff_library_plain, 0, 1);
    const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
    assert_ok(ff_planned_device_open_with(&planned, description, &ff_cuda_compute_ops,
                                          &ff_library_plain, error));
    const ff_card card = ff_planned_device_card(planned);
    assert_near(card.bytes_per_s, 2 * 2e9 * 6144 / 8);
    assert_near(card.matrix_flops[FF_PRECISION_F16], 4096. * 3 * 1e9);
    open_model(&here, &forms[1], FF_PRECISION_F16, &device);
    open_model(&there, &forms[1], FF_PRECISION_F16, ff_planned_device_model(planned));
    const ff_cost_options options = {0};
    assert_ok(ff_costs_count(&a, ff_model_training_plan(here), &options, error));
    assert_ok(ff_costs_count(&b, ff_model_training_plan(there), &options, error));
    assert_int_equal(a.row_count, b.row_count);
    assert_int_equal(a.piece_count, b.piece_count);
    for (size_t i = 0; i < a.row_count; i++) assert_string_equal(a.rows[i].what, b.rows[i].what);
    for (size_t i = 0; i < a.piece_count; i++)
        assert_true(a.pieces[i].bytes == b.pieces[i].bytes &&
                    a.pieces[i].matrix_flops == b.pieces[i].matrix_flops);

    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    ff_costs_print(out, &b, &card);
    fclose(out);
    assert_non_null(strstr(text, "counted, not measured"));
    assert_non_null(strstr(text, "2.79 TiB/s"));
    assert_non_null(strstr(text, "\nbackward "));
    assert_non_null(strstr(text, "\nsamples/s "));
    free(text);
    ff_costs_free(&a);
    ff_costs_free(&b);
    ff_model_destroy(&there);
    ff_model_destroy(&here);
    ff_planned_device_close(&planned);
    close_machine(&m);

    /* Plans for the CPU have no such costs. */
    net n;
    ff_error failure = {0};
    open_net(&n, build_residual, 3, 16, 12, 3, "reference", 1);
    assert_int_equal(ff_costs_count(&a, n.plan, &options, &failure), FF_USAGE);
    assert_null(a.rows);
    close_net(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_match_the_recordings),
        cmocka_unit_test(bytes_are_by_hand),
        cmocka_unit_test(depthwise_is_by_hand),
        cmocka_unit_test(banks_are_by_hand),
        cmocka_unit_test(batches_are_counted),
        cmocka_unit_test(limits_match_the_data_sheets),
        cmocka_unit_test(times_are_the_slowest_part),
        cmocka_unit_test(a_described_gpu_costs_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
