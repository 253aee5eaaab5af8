-------------------------------- MODULE Quorum -------------------------------
(* One lease on a majority of independent nodes. An attempt proposes a ballot,*)
(* its token. A node grants it if the resource is free there and the ballot   *)
(* is above every one that it granted before. With a majority the attempt     *)
(* holds, for a window that counts from when it sent its requests. A renewal  *)
(* counts the nodes that still have the lease; on the others it is made anew, *)
(* with a new ballot, which counts from the next renewal on.                  *)
(*                                                                            *)
(* Two majorities have a node in common: exclusion, and tokens that rise. A   *)
(* node that crashes and keeps its data is a node whose messages are lost.    *)
(*                                                                            *)
(* GUARANTEES.md, "On a quorum of independent nodes".                         *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Nodes, Attempts,
    TTL, Margin,
    Ballots,     \* the highest ballot; each attempt proposes any
    Renewals,    \* of a lease, at most
    Majority,    \* how many grants are needed
    Empties,     \* planted: how many times a node restarts without its data
    FromReply,   \* planted: the window counts from the last reply
    CountsAll,   \* planted: a renewal counts nodes that do not have the lease
    Again,       \* planted: a node grants a ballot that it has granted before
    Counters     \* planted: a token is the highest of the nodes' own counters

None == "none"
Symmetry == Permutations(Nodes) \cup Permutations(Attempts)

VARIABLES
    has, left, last, \* by node: whose lease it has, the rest of its TTL, the highest ballot
    gone,            \* by node: the attempts that it was told have ended
    phase,           \* by attempt: new, asks, holds, renews, over
    ballot,          \* by attempt
    yes,             \* by attempt: the nodes that have granted or renewed, as far as it knows
    age,             \* by attempt: time since it sent its latest requests
    window,          \* by attempt: the rest of its window
    rounds,          \* by attempt: its renewals
    top, fell,       \* the highest token of a holder, and whether one was not above it
    empties

vars == <<has, left, last, gone, phase, ballot, yes, age, window, rounds, top, fell, empties>>
nodes == <<has, left, last, gone, empties>>

TypeOK ==
    /\ has \in [Nodes -> Attempts \cup {None}] /\ left \in [Nodes -> 0..TTL] /\ last \in [Nodes -> 0..Ballots]
    /\ gone \in [Nodes -> SUBSET Attempts]
    /\ phase \in [Attempts -> {"new", "asks", "holds", "renews", "over"}]
    /\ ballot \in [Attempts -> 0..Ballots]
    /\ yes \in [Attempts -> SUBSET Nodes]
    /\ age \in [Attempts -> 0..TTL] /\ window \in [Attempts -> 0..TTL]
    /\ rounds \in [Attempts -> 0..Renewals] /\ top \in 0..Ballots /\ fell \in BOOLEAN

Init ==
    /\ has = [n \in Nodes |-> None] /\ left = [n \in Nodes |-> 0]
    /\ last \in IF Counters THEN [Nodes -> 0..1] ELSE {[n \in Nodes |-> 0]} \* attempts that failed have moved counters apart
    /\ gone = [n \in Nodes |-> {}]
    /\ phase = [a \in Attempts |-> "new"] /\ ballot = [a \in Attempts |-> 0]
    /\ yes = [a \in Attempts |-> {}]
    /\ age = [a \in Attempts |-> 0] /\ window = [a \in Attempts |-> 0]
    /\ rounds = [a \in Attempts |-> 0] /\ top = 0 /\ fell = FALSE /\ empties = 0

Sent(a, p) ==
    /\ phase' = [phase EXCEPT ![a] = p]
    /\ yes' = [yes EXCEPT ![a] = {}]
    /\ age' = [age EXCEPT ![a] = 0]

Propose(a, b) ==
    /\ phase[a] = "new"
    /\ ballot' = [ballot EXCEPT ![a] = b]
    /\ Sent(a, "asks")
    /\ UNCHANGED <<nodes, window, rounds, top, fell>>

(* An answer arrives, or is lost. One that is late is a late Win. *)
Answer(n, a) == yes' = yes \/ yes' = [yes EXCEPT ![a] = @ \cup {n}]

(* A request arrives at a node. It may arrive late, but not after the end. *)
Grant(n, a) ==
    /\ phase[a] \in {"asks", "over"} /\ ballot[a] > 0
    /\ a \notin gone[n] /\ has[n] = None
    /\ Counters \/ ballot[a] > last[n] \/ (Again /\ ballot[a] = last[n])
    /\ Counters => last[n] < Ballots
    /\ has' = [has EXCEPT ![n] = a] /\ left' = [left EXCEPT ![n] = TTL]
    /\ last' = [last EXCEPT ![n] = IF Counters THEN @ + 1 ELSE ballot[a]]
    /\ Answer(n, a)
    /\ UNCHANGED <<gone, empties, phase, ballot, age, window, rounds, top, fell>>

Rest(a) == LET used == Margin + (IF FromReply THEN 0 ELSE age[a]) IN IF used >= TTL THEN 0 ELSE TTL - used

Highest(S) == CHOOSE x \in S : \A y \in S : y <= x
Token(a) == IF Counters THEN Highest({last[n] : n \in yes[a]}) ELSE ballot[a]

Win(a) ==
    /\ phase[a] = "asks" /\ Cardinality(yes[a]) >= Majority /\ Rest(a) > 0
    /\ phase' = [phase EXCEPT ![a] = "holds"]
    /\ window' = [window EXCEPT ![a] = Rest(a)]
    /\ fell' = (fell \/ Token(a) <= top)
    /\ top' = IF Token(a) > top THEN Token(a) ELSE top
    /\ UNCHANGED <<nodes, ballot, yes, age, rounds>>

Renew(a) ==
    /\ phase[a] \in {"holds", "renews"} /\ window[a] > 0 /\ rounds[a] < Renewals
    /\ rounds' = [rounds EXCEPT ![a] = @ + 1]
    /\ Sent(a, "renews")
    /\ UNCHANGED <<nodes, ballot, window, top, fell>>

RenewAt(n, a) ==
    /\ phase[a] = "renews" /\ a \notin gone[n] /\ n \notin yes[a]
    /\ has[n] = a \/ CountsAll
    /\ left' = IF has[n] = a THEN [left EXCEPT ![n] = TTL] ELSE left
    /\ Answer(n, a)
    /\ UNCHANGED <<has, last, gone, empties, phase, ballot, age, window, rounds, top, fell>>

Renewed(a) ==
    /\ phase[a] = "renews" /\ Cardinality(yes[a]) >= Majority
    /\ phase' = [phase EXCEPT ![a] = "holds"]
    /\ window' = [window EXCEPT ![a] = IF Rest(a) > @ THEN Rest(a) ELSE @]
    /\ UNCHANGED <<nodes, ballot, yes, age, rounds, top, fell>>

(* While a majority keeps the lease it is made anew where it is missing, also *)
(* if a renewal has no majority yet.                                          *)
Restore(n, a, b) ==
    /\ phase[a] \in {"holds", "renews"} /\ window[a] > 0 /\ ~Counters
    /\ a \notin gone[n] /\ has[n] = None /\ b > last[n]
    /\ has' = [has EXCEPT ![n] = a] /\ left' = [left EXCEPT ![n] = TTL]
    /\ last' = [last EXCEPT ![n] = b]
    /\ UNCHANGED <<gone, empties, phase, ballot, yes, age, window, rounds, top, fell>>

(* The holder releases, or an attempt that failed is withdrawn. *)
End(a) ==
    /\ phase[a] \in {"asks", "holds", "renews"}
    /\ phase' = [phase EXCEPT ![a] = "over"]
    /\ window' = [window EXCEPT ![a] = 0]
    /\ UNCHANGED <<nodes, ballot, yes, age, rounds, top, fell>>

EndAt(n, a) ==
    /\ phase[a] = "over" /\ a \notin gone[n]
    /\ gone' = [gone EXCEPT ![n] = @ \cup {a}]
    /\ has' = [has EXCEPT ![n] = IF @ = a THEN None ELSE @]
    /\ left' = [left EXCEPT ![n] = IF has[n] = a THEN 0 ELSE @]
    /\ UNCHANGED <<last, empties, phase, ballot, yes, age, window, rounds, top, fell>>

(* A node restarts without its data. *)
Empty(n) ==
    /\ empties < Empties /\ empties' = empties + 1
    /\ has' = [has EXCEPT ![n] = None] /\ left' = [left EXCEPT ![n] = 0]
    /\ last' = [last EXCEPT ![n] = 0] /\ gone' = [gone EXCEPT ![n] = {}]
    /\ UNCHANGED <<phase, ballot, yes, age, window, rounds, top, fell>>

Less(k) == IF k = 0 THEN 0 ELSE k - 1

Tick ==
    /\ left' = [n \in Nodes |-> Less(left[n])]
    /\ has' = [n \in Nodes |-> IF left[n] <= 1 THEN None ELSE has[n]]
    /\ window' = [a \in Attempts |-> Less(window[a])]
    /\ age' = [a \in Attempts |-> IF phase[a] \in {"asks", "renews"} /\ age[a] < TTL THEN age[a] + 1 ELSE age[a]]
    /\ phase' = [a \in Attempts |-> IF phase[a] \in {"holds", "renews"} /\ window[a] <= 1 THEN "over" ELSE phase[a]]
    /\ UNCHANGED <<last, gone, empties, ballot, yes, rounds, top, fell>>

Next ==
    \/ Tick
    \/ \E n \in Nodes : Empty(n)
    \/ \E a \in Attempts :
        \/ \E b \in 1..Ballots : Propose(a, b)
        \/ Win(a) \/ Renew(a) \/ Renewed(a) \/ End(a)
        \/ \E n \in Nodes :
            \/ Grant(n, a) \/ RenewAt(n, a) \/ EndAt(n, a)
            \/ \E b \in 1..Ballots : Restore(n, a, b)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
Exclusion == Cardinality({a \in Attempts : window[a] > 0}) <= 1

(* The token of each holder is above those of all holders before. *)
TokensRise == ~fell
=============================================================================
