-------------------------------- MODULE Queue --------------------------------
(* The queue of one resource, as internal/queue has it: a capacity, leases    *)
(* with a weight and a deadline, and a line of waiters, first come, first     *)
(* served. Each ID is one attempt: it may ask again and again, is granted     *)
(* once, and never comes back when it has ended. An operation clears up at    *)
(* most a portion of what is dead.                                            *)
(*                                                                            *)
(* Promises 1, 4, 5 and 6 of GUARANTEES.md, as far as the store makes them.   *)
(* QueueTrace.tla checks that the code takes the steps of this module.        *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Ids,
    Heavy,       \* those that need 2 of the capacity, where others need 1
    Capacity,
    TTL,         \* of every lease, in ticks
    Claim,       \* the first TTL of a lease granted to a waiter, at most
    Life,        \* a waiter that has not polled for so long is dead
    Lives,       \* after so many lives it may be dropped wherever it is in the line
    Portion,     \* how many leases and waiters an operation clears up
    Renewals,    \* of a lease, at most
    Breaks,      \* whether an operator breaks leases and waits
    Passes,      \* planted: a newcomer that fits passes the line
    LightPass,   \* planted: a waiter that fits passes those in front that do not
    ComesBack,   \* planted: an ID that has ended may ask again
    Unbounded    \* planted: an operation clears up everything

None == -1
Weight(id) == IF id \in Heavy THEN 2 ELSE 1
Lasts(id) == TTL

VARIABLES
    left,     \* by ID: the rest of its lease, 0 if it is over and not cleared up, None without one
    line,     \* the waiters, the front first
    seen,     \* by ID: time since its latest poll
    ended,    \* the IDs that have ended
    breaking, \* of these: those that an operator broke, and whose lease lasts until its deadline
    dead,     \* the IDs whose process has died: they send nothing any more
    renewed,  \* by ID: how often it was renewed
    cleared   \* how many the latest operation has cleared up

vars == <<left, line, seen, ended, breaking, dead, renewed, cleared>>

Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

Sum(S) == LET RECURSIVE Add(_)
              Add(T) == IF T = {} THEN 0 ELSE LET x == CHOOSE x \in T : TRUE IN Weight(x) + Add(T \ {x})
          IN Add(S)

Range(s) == {s[i] : i \in 1..Len(s)}
Without(s, S) == SelectSeq(s, LAMBDA id : id \notin S)
Holders(l) == {id \in Ids : l[id] # None}
Asked == Range(line) \cup Holders(left) \cup ended

TypeOK ==
    /\ left \in [Ids -> {None} \cup 0..TTL]
    /\ Range(line) \subseteq Ids /\ Len(line) = Cardinality(Range(line))
    /\ seen \in [Ids -> 0..Life * Lives]
    /\ ended \subseteq Ids /\ breaking \subseteq ended /\ dead \subseteq Ids
    /\ renewed \in [Ids -> 0..Renewals]

Init ==
    /\ left = [id \in Ids |-> None] /\ line = <<>>
    /\ seen = [id \in Ids |-> 0]
    /\ ended = {} /\ breaking = {} /\ dead = {}
    /\ renewed = [id \in Ids |-> 0]
    /\ cleared = 0

-----------------------------------------------------------------------------
(* What every operation does besides its own work, on a state s.             *)

Bound == IF Unbounded THEN Cardinality(Ids) ELSE Portion

(* An ID holds and waits no more, and has ended. *)
End(s, id) ==
    [s EXCEPT !.left[id] = None, !.line = Without(@, {id}), !.ended = @ \cup {id}, !.breaking = @ \ {id}]

(* Leases that are over are cleared up, as many as the portion allows. The   *)
(* ID of the operation itself is looked at in any case.                      *)
RECURSIVE Reap(_)
Reap(s) ==
    LET over == {id \in Ids : s.left[id] = 0}
    IN IF over = {} \/ s.rest = 0 THEN s
       ELSE Reap([End(s, CHOOSE id \in over : TRUE) EXCEPT !.rest = @ - 1])

Expire(s, id) == IF s.left[id] = 0 THEN End(s, id) ELSE s

Fits(s, id) == Sum(Holders(s.left)) + Weight(id) <= Capacity

Hold(s, id, ttl) == [s EXCEPT !.left[id] = ttl, !.line = Without(@, {id})]

(* Grants go to the front of the line, as long as it fits. Dead waiters at   *)
(* the front are dropped.                                                    *)
RECURSIVE Advance(_, _)
Advance(s, caller) ==
    IF s.line = <<>> \/ s.rest = 0 \/ Sum(Holders(s.left)) >= Capacity THEN s
    ELSE LET front == Head(s.line)
             fit == {i \in 1..Len(s.line) : Fits(s, s.line[i])}
             first(id) == IF id = caller THEN Lasts(id) ELSE Min(Lasts(id), Claim)
         IN IF s.seen[front] >= Life
            THEN Advance([s EXCEPT !.line = Tail(@), !.rest = @ - 1], caller)
            ELSE IF Fits(s, front)
            THEN Advance([Hold(s, front, first(front)) EXCEPT !.rest = @ - 1], caller)
            ELSE IF LightPass /\ fit # {}
            THEN LET id == s.line[CHOOSE i \in fit : \A j \in fit : i <= j] IN Hold(s, id, first(id))
            ELSE s

Begin == [left |-> left, line |-> line, seen |-> seen, ended |-> ended, breaking |-> breaking, rest |-> Bound]

(* "\E s \in {state}" lets TLC evaluate the state once.                       *)
Finish(state) == \E s \in {state} :
    /\ left' = s.left /\ line' = s.line /\ seen' = s.seen /\ ended' = s.ended /\ breaking' = s.breaking
    /\ cleared' = Bound - s.rest

-----------------------------------------------------------------------------
(* The operations, as the store takes them.                                  *)

(* A request, or a poll of the same attempt. It releases the lease of another *)
(* ID first, and joins the line, if it says so.                               *)
Ask(id, waits, yields) ==
    \E r \in {Expire(Reap(Begin), id)} :
    \E s \in {IF yields = None THEN r ELSE End(r, yields)} :
    \E t \in {Advance([s EXCEPT !.seen[id] = 0], id)} :
       Finish(IF id \in s.ended /\ ~ComesBack
              THEN Advance(s, None)
              ELSE IF s.left[id] # None \* a copy of the request that was granted
              THEN Advance([s EXCEPT !.left[id] = Max(@, Lasts(id))], None)
              ELSE IF t.left[id] # None \/ id \in Range(t.line) THEN t
              ELSE IF Fits(t, id) /\ (t.line = <<>> \/ Passes) THEN Hold(t, id, Lasts(id))
              ELSE IF waits THEN [t EXCEPT !.line = Append(@, id)] ELSE t)

Extend(id, ttl) ==
    \E s \in {Expire(Reap(Begin), id)} :
       Finish(Advance(IF s.left[id] = None \/ id \in s.breaking THEN s
                      ELSE [s EXCEPT !.left[id] = Max(@, ttl)], None))

(* Release, or withdrawal: the ID never comes back. *)
Leave(id) == Finish(Advance(Reap(End(Begin, id)), None))

(* An operator ends a wait at once, and a lease by its deadline or by force.  *)
Cancel(id, force) ==
    \E s \in {Expire(Reap(Begin), id)} :
       Finish(Advance(IF s.left[id] # None /\ ~force
                      THEN [s EXCEPT !.ended = @ \cup {id}, !.breaking = @ \cup {id}]
                      ELSE IF s.left[id] # None \/ id \in Range(s.line) THEN End(s, id) ELSE s, None))

(* From time to time waiters that died long ago are dropped behind the front. *)
Long == {id \in Range(line) : seen[id] >= Life * Lives}
Drop(S) == Finish([Begin EXCEPT !.line = Without(@, S)])

Pass(ticks) ==
    /\ left' = [id \in Ids |-> IF left[id] = None THEN None ELSE Max(0, left[id] - ticks)]
    /\ seen' = [id \in Ids |-> IF id \in Range(line) THEN Min(Life * Lives, seen[id] + ticks) ELSE seen[id]]
    /\ cleared' = 0
    /\ UNCHANGED <<line, ended, breaking>>

-----------------------------------------------------------------------------
(* Who takes them.                                                           *)

Acquire(id) ==
    /\ id \notin dead
    /\ left[id] # None /\ id \notin ended => renewed[id] < Renewals
    /\ \E waits \in BOOLEAN : Ask(id, waits, None)
    /\ renewed' = [renewed EXCEPT ![id] = IF left[id] > 0 /\ id \notin ended THEN @ + 1 ELSE @]
    /\ UNCHANGED dead

(* A process gives its lease back and joins the line again in one step. *)
Yield(id, next) ==
    /\ id \notin dead /\ left[id] # None /\ next \notin Asked \cup dead
    /\ Ask(next, TRUE, id)
    /\ UNCHANGED <<dead, renewed>>

Renew(id) ==
    /\ id \notin dead /\ renewed[id] < Renewals /\ left[id] # None
    /\ Extend(id, TTL)
    /\ renewed' = [renewed EXCEPT ![id] = @ + 1]
    /\ UNCHANGED dead

Release(id) == id \notin dead /\ id \in Asked \ (ended \ breaking) /\ Leave(id) /\ UNCHANGED <<dead, renewed>>

Break(id) ==
    /\ Breaks /\ id \in Asked \ ended
    /\ \E force \in BOOLEAN : Cancel(id, force)
    /\ UNCHANGED <<dead, renewed>>

Die(id) ==
    /\ id \in Asked \ (ended \cup dead)
    /\ dead' = dead \cup {id}
    /\ UNCHANGED <<left, line, seen, ended, breaking, renewed, cleared>>

Sweep == Long # {} /\ Drop(Long) /\ UNCHANGED <<dead, renewed>>

(* Time passes. Who lives polls in time. *)
Tick ==
    /\ \A id \in Range(line) : id \in dead \/ seen[id] < Life - 1
    /\ Pass(1)
    /\ UNCHANGED <<dead, renewed>>

Next ==
    \/ Tick \/ Sweep
    \/ \E id \in Ids : Acquire(id) \/ Renew(id) \/ Release(id) \/ Break(id) \/ Die(id)
    \/ \E id, next \in Ids : Yield(id, next)

(* Time goes on, and who waits polls. Nobody has to release, but nobody      *)
(* renews for ever.                                                          *)
Fairness == WF_vars(Tick) /\ \A id \in Ids : WF_vars(id \in Range(line) /\ Acquire(id))

Spec == Init /\ [][Next]_vars
LiveSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* 1. What is held never exceeds the capacity. *)
Exclusion == Sum(Holders(left)) <= Capacity

(* 6. An ID that has ended neither holds nor waits. A lease that an operator *)
(* broke lasts until its deadline, or its release.                           *)
Ended == \A id \in ended : (left[id] = None \/ id \in breaking) /\ id \notin Range(line)

(* One operation does a bounded amount of clearing up. *)
Bounded == cleared <= Portion

(* 5. No grant passes a live waiter that is ahead. *)
Place(id) == IF id \in Range(line) THEN CHOOSE i \in 1..Len(line) : line[i] = id ELSE Len(line) + 1
Order ==
    [][\A id \in Holders(left') \ Holders(left) :
          \A i \in 1..Len(line) :
              i < Place(id) /\ seen[line[i]] < Life => line[i] \notin Range(line')]_vars

(* A lease that was broken, or is over, is never extended. *)
NoRevival ==
    [][\A id \in Ids : left[id] = 0 \/ id \in breaking => left'[id] <= left[id]]_vars

(* 4. Who waits and lives is granted, or has withdrawn, whoever else dies. *)
Progress == \A id \in Ids :
    id \in Range(line) ~> (id \in Holders(left) \/ id \in ended \/ id \in dead)
=============================================================================
