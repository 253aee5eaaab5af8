-------------------------------- MODULE Queue --------------------------------
(* The queue of one resource, as internal/queue has it: a capacity, leases    *)
(* with a weight and a deadline, and a line of waiters, first come, first     *)
(* served. Each ID is one attempt: it may ask again and again, is granted     *)
(* once, and never comes back when it has ended. An operation clears up at    *)
(* most a portion of what is dead.                                            *)
(*                                                                            *)
(* Promises 1, 4, 5 and 6 of GUARANTEES.md, as far as the store makes them.   *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Ids,
    Heavy,       \* those that need 2 of the capacity, where others need 1
    Capacity,
    TTL,         \* of every lease, in ticks
    Claim,       \* the first TTL of a lease granted to a waiter
    Life,        \* a waiter that has not polled for so long is dead
    Portion,     \* how many leases and waiters an operation clears up
    Renewals,    \* of a lease, at most
    Passes,      \* planted: a newcomer that fits passes the line
    LightPass,   \* planted: a waiter that fits passes those in front that do not
    ComesBack,   \* planted: an ID that has ended may ask again
    Unbounded    \* planted: an operation clears up everything

None == -1
Weight(id) == IF id \in Heavy THEN 2 ELSE 1

VARIABLES
    left,     \* by ID: the rest of its lease, 0 if it is over and not cleared up, None without one
    line,     \* the waiters, the front first
    seen,     \* by ID: time since its latest poll
    ended,    \* the IDs that have ended
    dead,     \* the IDs whose process has died: they send nothing any more
    renewed,  \* by ID: how often it was renewed
    cleared   \* how many the latest operation has cleared up

vars == <<left, line, seen, ended, dead, renewed, cleared>>

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
    /\ seen \in [Ids -> 0..Life]
    /\ ended \subseteq Ids /\ dead \subseteq Ids
    /\ renewed \in [Ids -> 0..Renewals]

Init ==
    /\ left = [id \in Ids |-> None] /\ line = <<>>
    /\ seen = [id \in Ids |-> 0]
    /\ ended = {} /\ dead = {}
    /\ renewed = [id \in Ids |-> 0]
    /\ cleared = 0

-----------------------------------------------------------------------------
(* What every operation does besides its own work, on a state s.             *)

Bound == IF Unbounded THEN Cardinality(Ids) ELSE Portion

(* Leases that are over are cleared up, as many as the portion allows. The   *)
(* ID of the operation itself is looked at in any case.                      *)
RECURSIVE Reap(_)
Reap(s) ==
    LET over == {id \in Ids : s.left[id] = 0}
    IN IF over = {} \/ s.rest = 0 THEN s
       ELSE LET id == CHOOSE id \in over : TRUE
            IN Reap([s EXCEPT !.left[id] = None, !.ended = @ \cup {id}, !.rest = @ - 1])

Expire(s, id) ==
    IF s.left[id] = 0 THEN [s EXCEPT !.left[id] = None, !.ended = @ \cup {id}] ELSE s

Fits(s, id) == Sum(Holders(s.left)) + Weight(id) <= Capacity

Hold(s, id, ttl) == [s EXCEPT !.left[id] = ttl, !.line = Without(@, {id})]

(* Grants go to the front of the line, as long as it fits. Dead waiters at   *)
(* the front are dropped.                                                    *)
RECURSIVE Advance(_, _)
Advance(s, caller) ==
    IF s.line = <<>> \/ s.rest = 0 \/ Sum(Holders(s.left)) >= Capacity THEN s
    ELSE LET front == Head(s.line)
             fit == {i \in 1..Len(s.line) : Fits(s, s.line[i])}
         IN IF s.seen[front] >= Life
            THEN Advance([s EXCEPT !.line = Tail(@), !.rest = @ - 1], caller)
            ELSE IF Fits(s, front)
            THEN Advance([Hold(s, front, IF front = caller THEN TTL ELSE Claim) EXCEPT !.rest = @ - 1], caller)
            ELSE IF LightPass /\ fit # {}
            THEN Hold(s, s.line[CHOOSE i \in fit : \A j \in fit : i <= j], Claim)
            ELSE s

Begin == [left |-> left, line |-> line, seen |-> seen, ended |-> ended, rest |-> Bound]

Finish(s) ==
    /\ left' = s.left /\ line' = s.line /\ seen' = s.seen /\ ended' = s.ended
    /\ cleared' = Bound - s.rest

-----------------------------------------------------------------------------
(* The operations.                                                           *)

(* Acquire, or a poll of the same attempt. *)
Acquire(id) ==
    /\ id \notin dead
    /\ LET s == Expire(Reap(Begin), id)
       IN IF id \in s.ended /\ ~ComesBack
          THEN Finish(Advance(s, None))
          ELSE IF s.left[id] # None \* a copy of the request that was granted
          THEN renewed[id] < Renewals /\ Finish(Advance([s EXCEPT !.left[id] = TTL], None))
          ELSE LET t == Advance([s EXCEPT !.seen[id] = 0], id)
               IN IF t.left[id] # None \/ id \in Range(t.line) THEN Finish(t)
                  ELSE IF Fits(t, id) /\ (t.line = <<>> \/ Passes)
                  THEN Finish(Hold(t, id, TTL))
                  ELSE Finish([t EXCEPT !.line = Append(@, id)])
    /\ renewed' = [renewed EXCEPT ![id] = IF left[id] > 0 THEN @ + 1 ELSE @]
    /\ UNCHANGED dead

Renew(id) ==
    /\ id \notin dead /\ renewed[id] < Renewals
    /\ LET s == Expire(Reap(Begin), id)
       IN /\ s.left[id] # None
          /\ Finish(Advance([s EXCEPT !.left[id] = TTL], None))
    /\ renewed' = [renewed EXCEPT ![id] = @ + 1]
    /\ UNCHANGED dead

(* Release, or withdrawal: the ID never comes back. *)
Release(id) ==
    /\ id \notin dead /\ id \in Asked \ ended
    /\ LET s == [Begin EXCEPT !.left[id] = None, !.line = Without(@, {id}), !.ended = @ \cup {id}]
       IN Finish(Advance(Reap(s), None))
    /\ UNCHANGED <<dead, renewed>>

Die(id) ==
    /\ id \in Asked \ (ended \cup dead)
    /\ dead' = dead \cup {id}
    /\ UNCHANGED <<left, line, seen, ended, renewed, cleared>>

(* Time passes. Who lives polls in time. *)
Tick ==
    /\ \A id \in Range(line) : id \in dead \/ seen[id] < Life - 1
    /\ left' = [id \in Ids |-> IF left[id] > 0 THEN left[id] - 1 ELSE left[id]]
    /\ seen' = [id \in Ids |-> IF id \in Range(line) /\ seen[id] < Life THEN seen[id] + 1 ELSE seen[id]]
    /\ cleared' = 0
    /\ UNCHANGED <<line, ended, dead, renewed>>

Next == Tick \/ \E id \in Ids : Acquire(id) \/ Renew(id) \/ Release(id) \/ Die(id)

(* Time goes on, and who waits polls. Nobody has to release, but nobody      *)
(* renews for ever.                                                          *)
Fairness == WF_vars(Tick) /\ \A id \in Ids : WF_vars(id \in Range(line) /\ Acquire(id))

Spec == Init /\ [][Next]_vars
LiveSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* 1. What is held never exceeds the capacity. *)
Exclusion == Sum(Holders(left)) <= Capacity

(* 6. An ID that has ended neither holds nor waits. *)
Ended == \A id \in ended : left[id] = None /\ id \notin Range(line)

(* One operation does a bounded amount of clearing up. *)
Bounded == cleared <= Portion

(* 5. No grant passes a live waiter that is ahead. *)
Place(id) == IF id \in Range(line) THEN CHOOSE i \in 1..Len(line) : line[i] = id ELSE Len(line) + 1
Order ==
    [][\A id \in Holders(left') \ Holders(left) :
          \A i \in 1..Len(line) :
              i < Place(id) /\ seen[line[i]] < Life => line[i] \notin Range(line')]_vars

(* 4. Who waits and lives is granted, or has withdrawn, whoever else dies. *)
Progress == \A id \in Ids :
    id \in Range(line) ~> (id \in Holders(left) \/ id \in ended \/ id \in dead)
=============================================================================
