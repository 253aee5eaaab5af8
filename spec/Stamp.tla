-------------------------------- MODULE Stamp --------------------------------
(* The lock of articles whose key has no TTL but a time: SETNX with the time  *)
(* at which it ends, by the client's clock. Who finds the time past takes     *)
(* over, with DEL and SETNX or with GETSET. Both admit two.                   *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Clients, TTL,
    Skew,        \* by how much clocks differ
    GetSet,      \* take over with GETSET, and only if the old value is returned
    End          \* the last instant

None == -1

VARIABLES
    now,
    ahead,   \* by client: by how much its clock is ahead
    key,     \* the time in the store
    who,     \* whose it is, for the invariants only
    at, saw,
    until    \* by client: until when it counts on the lock, by its own clock

vars == <<now, ahead, key, who, at, saw, until>>

Clock(c) == now + ahead[c]

Init ==
    /\ now = 0 /\ ahead \in [Clients -> 0..Skew] /\ key = None /\ who = "none"
    /\ at = [c \in Clients |-> "out"] /\ saw = [c \in Clients |-> None]
    /\ until = [c \in Clients |-> None]

Take(c) ==
    /\ key' = Clock(c) + TTL /\ who' = c
    /\ until' = [until EXCEPT ![c] = Clock(c) + TTL]
    /\ at' = [at EXCEPT ![c] = "in"]

SetNX(c) ==
    /\ at[c] \in {"out", "deleted"}
    /\ IF key = None THEN Take(c) ELSE at' = [at EXCEPT ![c] = "get"] /\ UNCHANGED <<key, who, until>>
    /\ UNCHANGED <<now, ahead, saw>>

Get(c) ==
    /\ at[c] = "get" /\ saw' = [saw EXCEPT ![c] = key]
    /\ at' = [at EXCEPT ![c] = IF key # None /\ key < Clock(c) THEN "stale" ELSE "out"]
    /\ UNCHANGED <<now, ahead, key, who, until>>

TakeOver(c) ==
    /\ at[c] = "stale"
    /\ IF GetSet
       THEN IF key = saw[c] THEN Take(c)
            ELSE key' = Clock(c) + TTL /\ at' = [at EXCEPT ![c] = "out"] /\ UNCHANGED <<who, until>>
       ELSE key' = None /\ who' = "none" /\ at' = [at EXCEPT ![c] = "deleted"] /\ UNCHANGED until
    /\ UNCHANGED <<now, ahead, saw>>

Tick == now < End /\ now' = now + 1 /\ UNCHANGED <<ahead, key, who, at, saw, until>>

Next == Tick \/ \E c \in Clients : SetNX(c) \/ Get(c) \/ TakeOver(c)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
Exclusion == Cardinality({c \in Clients : at[c] = "in" /\ Clock(c) <= until[c]}) <= 1
=============================================================================
