/* Queues as processes: what they do is data (`spin.c`), so one verifier serves all runs.
 *
 * Operations without a conflict are taken as soon as they can happen. A process has done `place[q]` operations, and
 * `busy[q]` while the next one is in flight, or has arrived at its rendezvous. When no process can move, the first one
 * looks whether all operations are over.
 */
c_decl { \#include "spin.c" }

short chosen;
short place[QUEUES];
byte busy[QUEUES];

/* SPIN takes calls in expressions for side effects; the words in capitals are macros of `spin.c`. */
proctype queue(byte number) {
  do
  :: d_step { c_expr { MAY_BEGIN } -> c_code { begin(now.chosen, now.place, now.busy, Pqueue->number); } }
  :: d_step { c_expr { MAY_END } -> c_code { end(now.chosen, now.place, now.busy, Pqueue->number); } }
  od
}

init {
  byte started;
  atomic {
    do
    :: c_expr { MORE_RUNS } -> chosen++
    :: break
    od;
    do
    :: c_expr { MORE_QUEUES } -> run queue(started); started++
    :: c_expr { !MORE_QUEUES } -> c_code { settle(now.chosen, now.place, now.busy); }; break
    od
  };
  timeout;
  if
  :: c_expr { ALL_OVER }
  :: c_expr { !ALL_OVER } -> c_code { print_stuck(now.chosen); }
  fi
}
