-------------------------------- MODULE Break --------------------------------
(* An operator breaks a lease. Renewals of a breaking lease are refused, and  *)
(* its holder is notified, by a message that may be lost, or by its next      *)
(* renewal. The resource passes on when the holder releases, at the latest    *)
(* at the deadline: never two holders, unless the operator breaks by force.   *)
(*                                                                            *)
(* Promise 2 of GUARANTEES.md. Time is as in Window, with exact clocks.       *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Clients, TTL, Margin,
    Grants,      \* of a client, at most
    AtOnce,      \* planted: a break passes the lease on at once
    Renewable,   \* planted: a breaking lease can be renewed
    Force        \* whether operators break by force, after which nothing is promised

None == "none"

VARIABLES
    holder, left,  \* in the store
    breaking,      \* whether the lease is breaking
    window,        \* by client: the rest of its window
    notified,      \* the clients that know of the break
    grants         \* by client

vars == <<holder, left, breaking, window, notified, grants>>

TypeOK ==
    /\ holder \in Clients \cup {None} /\ left \in 0..TTL /\ breaking \in BOOLEAN
    /\ window \in [Clients -> 0..TTL] /\ notified \subseteq Clients
    /\ grants \in [Clients -> 0..Grants]

Init ==
    /\ holder = None /\ left = 0 /\ breaking = FALSE
    /\ window = [c \in Clients |-> 0] /\ notified = {}
    /\ grants = [c \in Clients |-> 0]

Free == holder' = None /\ left' = 0 /\ breaking' = FALSE

Acquire(c) ==
    /\ holder = None /\ grants[c] < Grants
    /\ holder' = c /\ left' = TTL /\ breaking' = FALSE
    /\ window' = [window EXCEPT ![c] = TTL - Margin]
    /\ notified' = notified \ {c}
    /\ grants' = [grants EXCEPT ![c] = @ + 1]

(* A renewal; one of a breaking lease notifies the holder. *)
Renew(c) ==
    /\ window[c] > 0 /\ c \notin notified
    /\ IF holder = c /\ (~breaking \/ Renewable)
       THEN /\ left' = TTL
            /\ window' = [window EXCEPT ![c] = TTL - Margin]
            /\ UNCHANGED <<holder, breaking, notified, grants>>
       ELSE /\ notified' = notified \cup {c}
            /\ UNCHANGED <<holder, left, breaking, window, grants>>

Break ==
    /\ holder # None /\ ~breaking
    /\ IF AtOnce THEN Free ELSE breaking' = TRUE /\ UNCHANGED <<holder, left>>
    /\ UNCHANGED <<window, notified, grants>>

BreakByForce ==
    /\ Force /\ holder # None /\ Free
    /\ UNCHANGED <<window, notified, grants>>

(* The message of the break arrives. Without this step it is lost. *)
Hear(c) ==
    /\ holder = c /\ breaking
    /\ notified' = notified \cup {c}
    /\ UNCHANGED <<holder, left, breaking, window, grants>>

(* The holder leaves and releases, as soon as it is notified or before. *)
Release(c) ==
    /\ window[c] > 0
    /\ window' = [window EXCEPT ![c] = 0]
    /\ notified' = notified \ {c}
    /\ IF holder = c THEN Free ELSE UNCHANGED <<holder, left, breaking>>
    /\ UNCHANGED grants

Less(n) == IF n = 0 THEN 0 ELSE n - 1

Tick ==
    /\ IF left <= 1 THEN Free ELSE left' = left - 1 /\ UNCHANGED <<holder, breaking>>
    /\ window' = [c \in Clients |-> Less(window[c])]
    /\ UNCHANGED <<notified, grants>>

Next == Tick \/ Break \/ BreakByForce \/ \E c \in Clients : Acquire(c) \/ Renew(c) \/ Hear(c) \/ Release(c)

Spec == Init /\ [][Next]_vars
LiveSpec == Spec /\ WF_vars(Tick)

-----------------------------------------------------------------------------
Exclusion == Cardinality({c \in Clients : window[c] > 0}) <= 1

(* A lease that is broken ends, whatever its holder does and hears. *)
Ends == breaking ~> ~breaking
=============================================================================
