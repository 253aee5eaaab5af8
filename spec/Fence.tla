-------------------------------- MODULE Fence --------------------------------
(* What is left when a holder is paused between its last look at the clock    *)
(* and its write: the protected side refuses tokens below the highest that it *)
(* has seen, from when the new holder has claimed. Two holders read a value   *)
(* and write it back, one higher.                                             *)
(*                                                                            *)
(* Promise 3 of GUARANTEES.md, and docs/FENCING.md.                           *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Clients,
    NoFence,      \* the protected side takes every write
    WritesOnly,   \* it looks at the token with the write only, and not with the read
    Counter,      \* tokens come from a counter in the store, which a failover sets back
    Failovers

VARIABLES
    held,     \* who has the lease in the store, or none
    last,     \* the last token
    token,    \* by client; 0: none yet
    at,       \* by client: out, granted, read, wrote
    saw,      \* by client: the value that it has read
    value,    \* the protected value: how many updates it has
    fence,    \* the highest token that the protected side has seen
    updates,  \* how many writes it has taken
    failovers

vars == <<held, last, token, at, saw, value, fence, updates, failovers>>
Top == Cardinality(Clients) + Failovers + 1

TypeOK ==
    /\ held \in Clients \cup {"none"} /\ last \in 0..Top /\ token \in [Clients -> 0..Top]
    /\ at \in [Clients -> {"out", "granted", "read", "over"}]
    /\ saw \in [Clients -> 0..Top] /\ value \in 0..Top /\ fence \in 0..Top /\ updates \in 0..Top

Init ==
    /\ held = "none" /\ last = 0 /\ token = [c \in Clients |-> 0]
    /\ at = [c \in Clients |-> "out"] /\ saw = [c \in Clients |-> 0]
    /\ value = 0 /\ fence = 0 /\ updates = 0 /\ failovers = 0

Acquire(c) ==
    /\ at[c] = "out" /\ held = "none"
    /\ held' = c /\ last' = last + 1 /\ token' = [token EXCEPT ![c] = last + 1]
    /\ at' = [at EXCEPT ![c] = "granted"]
    /\ UNCHANGED <<saw, value, fence, updates, failovers>>

(* The lease ends under its holder, who is paused and does not see it. *)
Expire == held # "none" /\ held' = "none" /\ UNCHANGED <<last, token, at, saw, value, fence, updates, failovers>>

Max(a, b) == IF a > b THEN a ELSE b

(* The claim and the read are one step of the protected side. *)
Read(c) ==
    /\ at[c] = "granted"
    /\ IF NoFence \/ WritesOnly \/ token[c] >= fence
       THEN /\ at' = [at EXCEPT ![c] = "read"] /\ saw' = [saw EXCEPT ![c] = value]
            /\ fence' = IF WritesOnly THEN fence ELSE Max(fence, token[c])
       ELSE at' = [at EXCEPT ![c] = "over"] /\ UNCHANGED <<saw, fence>>
    /\ UNCHANGED <<held, last, token, value, updates, failovers>>

Write(c) ==
    /\ at[c] = "read" /\ at' = [at EXCEPT ![c] = "over"]
    /\ IF NoFence \/ token[c] >= fence
       THEN value' = saw[c] + 1 /\ fence' = Max(fence, token[c]) /\ updates' = updates + 1
       ELSE UNCHANGED <<value, fence, updates>>
    /\ UNCHANGED <<held, last, token, saw, failovers>>

(* A replica takes over that had not received the latest grant. A counter has *)
(* lost it; a token from the clock has not, since the clock has gone on.      *)
Failover ==
    /\ failovers < Failovers /\ failovers' = failovers + 1
    /\ held' = "none"
    /\ last' = IF Counter /\ last > 0 THEN last - 1 ELSE last
    /\ UNCHANGED <<token, at, saw, value, fence, updates>>

Next == Expire \/ Failover \/ \E c \in Clients : Acquire(c) \/ Read(c) \/ Write(c)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* No update is lost: the value counts all writes that were taken. *)
NoLostUpdate == value = updates

(* No two holders have the same token. *)
Unique == \A c, d \in Clients : c # d /\ token[c] # 0 => token[c] # token[d]
=============================================================================
