/* One thread a queue, under gcc's thread sanitizer: runs the queue programs that `threads.py` writes.
 *
 *     threads FILE        exit 0: ran to its end; 66: the sanitizer has seen a race; 77: nothing moved any more
 *
 * What would hide races is avoided:
 *
 *   - ranges are reported through the sanitizer's own entry points: an inlined memset would be invisible;
 *   - every atom has granules of 8 bytes of its own, the unit of the sanitizer's memory, and COPIES of them: a granule
 *     remembers a few accesses only and forgets one at random;
 *   - every meeting has a fresh pthread_barrier: a reused one orders more than the program does;
 *   - all threads wait at a start gate and at an end gate, so that none has ended before another begins;
 *   - a dependence is one flag of its own, set with release and read with acquire: it orders these two and no others.
 *
 * A mismatch makes no noise, so the main thread watches whether anything moves.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DO, MEET, ARRIVE, COMPLETE };
enum { GRANULE = 8, COPIES = 8 };
enum { STUCK = 77, QUIET_MS = 1500 };

void __tsan_read_range(void *address, unsigned long size);
void __tsan_write_range(void *address, unsigned long size);

typedef struct { int count, *items; } List;
typedef struct { int number, does, meeting; List waits, reads, writes; } Op;
typedef struct { int count; Op *ops; } Queue;

static Queue *queues;
static int queue_count, op_count, atom_count, meeting_count;
static pthread_barrier_t *meetings, start_gate, end_gate;
static int *never;
static atomic_int *over, moved, ended;
static char *memory;

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

static void sleep_for_ever(void) { for (;;) pause(); }

static void wait_for(int op) {
    if (op < 0) sleep_for_ever();
    while (!atomic_load_explicit(&over[op], memory_order_acquire)) sched_yield();
}

static void touch(List atoms, void (*report)(void *, unsigned long)) {
    for (int i = 0; i < atoms.count; i++) report(memory + (long)atoms.items[i] * GRANULE * COPIES, GRANULE * COPIES);
}

static void *run(void *argument) {
    Queue *queue = argument;
    pthread_barrier_wait(&start_gate);
    for (int i = 0; i < queue->count; i++) {
        Op *op = &queue->ops[i];
        for (int k = 0; k < op->waits.count; k++) wait_for(op->waits.items[k]);
        if (op->does == MEET) {
            if (never[op->meeting]) sleep_for_ever();
            pthread_barrier_wait(&meetings[op->meeting]);
        }
        touch(op->reads, __tsan_read_range);
        touch(op->writes, __tsan_write_range);
        atomic_store_explicit(&over[op->number], 1, memory_order_release);
        atomic_fetch_add_explicit(&moved, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    pthread_barrier_wait(&end_gate);
    return NULL;
}

static void read_program(FILE *file) {
    queue_count = number(file), op_count = number(file), atom_count = number(file), meeting_count = number(file);
    meetings = malloc(sizeof *meetings * (meeting_count + 1));
    never = calloc(meeting_count + 1, sizeof *never);
    for (int i = 0; i < meeting_count; i++) {
        int wanted = number(file);
        never[i] = wanted < 1;
        if (!never[i]) pthread_barrier_init(&meetings[i], NULL, wanted);
    }
    over = calloc(op_count + 1, sizeof *over);
    memory = aligned_alloc(64, ((long)atom_count + 1) * GRANULE * COPIES);
    queues = malloc(sizeof *queues * (queue_count + 1));
    for (int q = 0; q < queue_count; q++) {
        queues[q].count = number(file);
        queues[q].ops = malloc(sizeof(Op) * (queues[q].count + 1));
        for (int i = 0; i < queues[q].count; i++) {
            Op *op = &queues[q].ops[i];
            op->number = number(file), op->does = number(file), op->meeting = number(file);
            op->waits = list(file), op->reads = list(file), op->writes = list(file);
        }
    }
}

int main(int count, char **arguments) {
    FILE *file = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (!file) return 2;
    read_program(file);
    fclose(file);
    pthread_barrier_init(&start_gate, NULL, queue_count + 1);
    pthread_barrier_init(&end_gate, NULL, queue_count + 1);
    pthread_t *threads = malloc(sizeof *threads * (queue_count + 1));
    for (int q = 0; q < queue_count; q++) pthread_create(&threads[q], NULL, run, &queues[q]);
    pthread_barrier_wait(&start_gate);
    for (int quiet = 0, seen = -1; atomic_load_explicit(&ended, memory_order_relaxed) < queue_count; quiet++) {
        int now = atomic_load_explicit(&moved, memory_order_relaxed);
        if (now != seen) quiet = 0, seen = now;
        if (quiet >= QUIET_MS) _exit(STUCK);
        usleep(quiet < 20 ? 200 : 1000);
    }
    pthread_barrier_wait(&end_gate);
    for (int q = 0; q < queue_count; q++) pthread_join(threads[q], NULL);
    return 0;
}
