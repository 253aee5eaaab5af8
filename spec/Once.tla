-------------------------------- MODULE Once ---------------------------------
(* Work that is done once: the release of the lease marks the work as done,   *)
(* in one step of the store. While the mark lasts nobody is granted. A run    *)
(* has succeeded when its process has the store's confirmation.               *)
(*                                                                            *)
(* Promise 8 of GUARANTEES.md. The lease may expire under a run; requests and *)
(* replies may be lost, and a request may take effect late.                   *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Nodes,
    TwoSteps,    \* planted: the mark is set in a step after the release
    Forgetful,   \* planted: the mark is not kept when the lease is released
    Unchecked,   \* planted: whoever has a lease that expired still sets the mark and has succeeded
    Guess        \* planted: a lost reply counts as success

None == "none"

VARIABLES
    holder,    \* of the lease, in the store
    marked,    \* whether the work is marked as done
    at,        \* by node: where it is
    succeeded, \* how many runs were reported as the one that did the work
    skipped    \* how many calls were told that it is done

vars == <<holder, marked, at, succeeded, skipped>>

Places == {"start", "runs", "ran", "between", "lost", "end", "dead"}

TypeOK ==
    /\ holder \in Nodes \cup {None} /\ marked \in BOOLEAN
    /\ at \in [Nodes -> Places]
    /\ succeeded \in 0..Cardinality(Nodes) /\ skipped \in 0..Cardinality(Nodes)

Init ==
    /\ holder = None /\ marked = FALSE
    /\ at = [n \in Nodes |-> "start"]
    /\ succeeded = 0 /\ skipped = 0

Go(n, place) == at' = [at EXCEPT ![n] = place]

Acquire(n) ==
    /\ at[n] = "start"
    /\ IF marked
       THEN Go(n, "end") /\ skipped' = skipped + 1 /\ UNCHANGED <<holder, marked, succeeded>>
       ELSE holder = None /\ holder' = n /\ Go(n, "runs") /\ UNCHANGED <<marked, succeeded, skipped>>

Work(n) == at[n] = "runs" /\ Go(n, "ran") /\ UNCHANGED <<holder, marked, succeeded, skipped>>

(* The lease of a dead or slow node expires. *)
Expire == holder # None /\ holder' = None /\ UNCHANGED <<marked, at, succeeded, skipped>>

Die(n) == at[n] \notin {"end", "dead"} /\ Go(n, "dead") /\ UNCHANGED <<holder, marked, succeeded, skipped>>

(* The release with the mark. The store refuses both if the lease is gone. *)
Finish(n) ==
    /\ at[n] = "ran"
    /\ IF holder = n \/ Unchecked
       THEN /\ holder' = IF holder = n THEN None ELSE holder
            /\ marked' = IF TwoSteps \/ Forgetful THEN marked ELSE TRUE
            /\ \/ /\ Go(n, IF TwoSteps THEN "between" ELSE "end") \* the reply arrives
                  /\ succeeded' = IF TwoSteps THEN succeeded ELSE succeeded + 1
               \/ Go(n, "lost") /\ UNCHANGED succeeded            \* the reply is lost
       ELSE Go(n, "end") /\ UNCHANGED <<holder, marked, succeeded>> \* the lease was lost: an error
    /\ UNCHANGED skipped

(* The second step of the recipe that has two. *)
Mark(n) == at[n] = "between" /\ marked' = TRUE /\ succeeded' = succeeded + 1 /\ Go(n, "end") /\ UNCHANGED <<holder, skipped>>

(* A reply was lost. The same ID asks again, and is told what the store knows. *)
Again(n) ==
    /\ at[n] = "lost" /\ Go(n, "end")
    /\ succeeded' = IF Guess THEN succeeded + 1 ELSE succeeded
    /\ UNCHANGED <<holder, marked, skipped>>

(* The request itself was lost, and its sender cannot know. *)
LoseRequest(n) == at[n] = "ran" /\ Go(n, "lost") /\ UNCHANGED <<holder, marked, succeeded, skipped>>

Next == Expire \/ \E n \in Nodes : Acquire(n) \/ Work(n) \/ Die(n) \/ Finish(n) \/ Mark(n) \/ Again(n) \/ LoseRequest(n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* At most one run is the one that did the work. *)
AtMostOnce == succeeded <= 1

(* Nobody is told that the work is done unless it is marked. *)
NoneForNothing == skipped > 0 => marked
=============================================================================
