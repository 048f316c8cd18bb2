/* The runs that `spin.pml` explores, read from runs.txt as `spin.py` writes them, and what their operations mean.
 *
 * Nothing here changes but `place` and `busy`, which are the state; the rest is a table, or follows from the state.
 */
#include <stdio.h>
#include <stdlib.h>

#define MAY_BEGIN may_begin(now.chosen, now.place, now.busy, Pqueue->number)
#define MAY_END may_end(now.chosen, now.place, now.busy, Pqueue->number)
#define MORE_RUNS (now.chosen + 1 < runs())
#define MORE_QUEUES (Pinit->started < queues(now.chosen))
#define ALL_OVER all_over(now.chosen, now.place)

enum { NEVER = -1 };

typedef struct { int count, *items; } List;
typedef struct {
    int queue, position, rendezvous;
    List waits, rivals, needs; /* needs: semaphore and value in turn */
} Op;
typedef struct {
    int wanted;
    List ops;
} Rendezvous;
typedef struct {
    int op_count, queue_count, rendezvous_count, semaphore_count;
    Op *ops;
    List *queues, *signals; /* signals: operation and value in turn */
    Rendezvous *rendezvous;
    unsigned char *printed, stuck;
} Run;

static Run *all_runs;
static int run_count = -1;

static int number(FILE *file) {
    int value;
    if (fscanf(file, "%d", &value) != 1) exit(2);
    return value;
}

static List list(FILE *file) {
    List made = {number(file), NULL};
    made.items = malloc(sizeof(int) * (made.count + 1));
    for (int i = 0; i < made.count; i++) made.items[i] = number(file);
    return made;
}

static void read_run(Run *run, FILE *file) {
    run->op_count = number(file), run->queue_count = number(file);
    run->rendezvous_count = number(file), run->semaphore_count = number(file);
    run->ops = malloc(sizeof(Op) * (run->op_count + 1));
    run->queues = malloc(sizeof(List) * (run->queue_count + 1));
    run->rendezvous = malloc(sizeof(Rendezvous) * (run->rendezvous_count + 1));
    run->signals = malloc(sizeof(List) * (run->semaphore_count + 1));
    run->printed = calloc(run->op_count + 1, run->op_count + 1);
    for (int i = 0; i < run->op_count; i++) {
        Op *op = &run->ops[i];
        op->rendezvous = number(file);
        op->waits = list(file), op->rivals = list(file), op->needs = list(file);
    }
    for (int q = 0; q < run->queue_count; q++) {
        run->queues[q] = list(file);
        for (int i = 0; i < run->queues[q].count; i++) {
            run->ops[run->queues[q].items[i]].queue = q;
            run->ops[run->queues[q].items[i]].position = i;
        }
    }
    for (int i = 0; i < run->rendezvous_count; i++)
        run->rendezvous[i].wanted = number(file), run->rendezvous[i].ops = list(file);
    for (int i = 0; i < run->semaphore_count; i++) run->signals[i] = list(file);
}

static int runs(void) {
    if (run_count < 0) {
        FILE *file = fopen("runs.txt", "r");
        if (!file) exit(2);
        int count = number(file);
        all_runs = calloc(count + 1, sizeof(Run));
        for (int i = 0; i < count; i++) read_run(&all_runs[i], file);
        fclose(file);
        run_count = count;
    }
    return run_count;
}

static int queues(int chosen) { return all_runs[chosen].queue_count; }

static int is_over(Run *run, short *place, int op) {
    return place[run->ops[op].queue] > run->ops[op].position;
}

static int in_flight(Run *run, short *place, unsigned char *busy, int op) {
    return busy[run->ops[op].queue] && place[run->ops[op].queue] == run->ops[op].position;
}

static int value(Run *run, short *place, int semaphore) {
    int sum = 0;
    List signals = run->signals[semaphore];
    for (int i = 0; i < signals.count; i += 2)
        if (is_over(run, place, signals.items[i])) sum += signals.items[i + 1];
    return sum;
}

static int may_begin(int chosen, short *place, unsigned char *busy, int queue) {
    Run *run = &all_runs[chosen];
    if (busy[queue] || place[queue] == run->queues[queue].count) return 0;
    Op *op = &run->ops[run->queues[queue].items[place[queue]]];
    for (int i = 0; i < op->waits.count; i++)
        if (op->waits.items[i] == NEVER || !is_over(run, place, op->waits.items[i])) return 0;
    for (int i = 0; i < op->needs.count; i += 2)
        if (value(run, place, op->needs.items[i]) < op->needs.items[i + 1]) return 0;
    return 1;
}

static int may_end(int chosen, short *place, unsigned char *busy, int queue) {
    Run *run = &all_runs[chosen];
    if (!busy[queue]) return 0;
    Op *op = &run->ops[run->queues[queue].items[place[queue]]];
    if (op->rendezvous < 0) return 1;
    Rendezvous *meeting = &run->rendezvous[op->rendezvous];
    int arrived = 0;
    for (int i = 0; i < meeting->ops.count; i++)
        arrived += is_over(run, place, meeting->ops.items[i]) || in_flight(run, place, busy, meeting->ops.items[i]);
    return arrived == meeting->wanted;
}

/* All operations that have no conflict, and can happen: others do not become impossible by that, and no two that
 * conflict stop being in flight together. */
static void settle(int chosen, short *place, unsigned char *busy) {
    Run *run = &all_runs[chosen];
    for (int moved = 1; moved;) {
        moved = 0;
        for (int q = 0; q < run->queue_count; q++) {
            while (place[q] < run->queues[q].count) {
                Op *op = &run->ops[run->queues[q].items[place[q]]];
                if (op->rivals.count) break;
                if (may_begin(chosen, place, busy, q)) busy[q] = moved = 1;
                if (!may_end(chosen, place, busy, q)) break;
                busy[q] = 0, place[q]++, moved = 1;
            }
        }
    }
}

/* Two operations that are in flight together race. */
static void begin(int chosen, short *place, unsigned char *busy, int queue) {
    Run *run = &all_runs[chosen];
    int number = run->queues[queue].items[place[queue]];
    Op *op = &run->ops[number];
    for (int i = 0; i < op->rivals.count; i++) {
        int other = op->rivals.items[i];
        unsigned char *printed = &run->printed[number * run->op_count + other];
        if (*printed || !in_flight(run, place, busy, other)) continue;
        *printed = 1;
        printf("RACE %d %d %d\n", chosen, number, other);
    }
    busy[queue] = 1;
}

static void end(int chosen, short *place, unsigned char *busy, int queue) {
    busy[queue] = 0;
    place[queue]++;
    settle(chosen, place, busy);
}

static int all_over(int chosen, short *place) {
    Run *run = &all_runs[chosen];
    for (int q = 0; q < run->queue_count; q++)
        if (place[q] < run->queues[q].count) return 0;
    return 1;
}

static void print_stuck(int chosen) {
    if (!all_runs[chosen].stuck) printf("STUCK %d\n", chosen);
    all_runs[chosen].stuck = 1;
}
