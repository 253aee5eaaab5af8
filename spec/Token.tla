-------------------------------- MODULE Token --------------------------------
(* Fencing tokens: each grant gets max(last + 1, clock), the clock in         *)
(* microseconds of the store. Tokens rise while the store keeps its data,     *)
(* when it forgets a name that nobody uses, and also when it loses all data,  *)
(* if its clock is then ahead of every token that it gave.                    *)
(*                                                                            *)
(* Promise 3 of GUARANTEES.md. TokenTrace.tla checks that the code takes the  *)
(* steps of this module.                                                      *)
EXTENDS Naturals

CONSTANTS
    End,        \* the last instant
    Reserve,    \* tokens that a grant may set aside for local hand-offs, at most
    Retention,  \* for how long the state of an unused name is kept
    Counts,     \* planted: a token is last + 1, whatever the clock shows
    Clocks,     \* planted: a token is the clock, whatever was given before
    Early       \* planted: the state is forgotten although tokens are ahead of the clock

VARIABLES
    now,
    known, last,  \* the state of the name in the store: whether it has one, and its last token
    forget,       \* when the state may be dropped
    top,          \* the highest token that was ever used, which the store may have lost
    latest        \* the token of the latest grant

vars == <<now, known, last, forget, top, latest>>

Max(a, b) == IF a > b THEN a ELSE b

TypeOK == now \in 1..End /\ known \in BOOLEAN /\ last \in Nat /\ forget \in Nat /\ top \in Nat /\ latest \in Nat

Init == now = 1 /\ known = FALSE /\ last = 0 /\ forget = 0 /\ top = 0 /\ latest = 0

Pass(ticks) == now + ticks <= End /\ now' = now + ticks /\ UNCHANGED <<known, last, forget, top, latest>>

Fresh == IF Counts THEN last + 1 ELSE IF Clocks THEN now ELSE Max(last + 1, now)

(* A grant, with tokens set aside for the holder's own hand-offs. *)
Grant(reserve) ==
    /\ Fresh + reserve <= End + 2
    /\ latest' = Fresh
    /\ last' = Fresh + reserve
    /\ top' = Max(top, Fresh + reserve)
    /\ known' = TRUE
    /\ forget' = (IF Early THEN now ELSE Max(now, Fresh + reserve)) + Retention
    /\ UNCHANGED now

(* The name was not used for the retention, and the clock is past its tokens. *)
Forget ==
    /\ known /\ now >= forget
    /\ known' = FALSE /\ last' = 0 /\ forget' = 0
    /\ UNCHANGED <<now, top, latest>>

(* The store loses its data, and its clock is ahead of every token. *)
Lose ==
    /\ known /\ now > top
    /\ known' = FALSE /\ last' = 0 /\ forget' = 0
    /\ UNCHANGED <<now, top, latest>>

Next == Pass(1) \/ Forget \/ Lose \/ \E r \in 0..Reserve : Grant(r)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Each grant has a higher token than all that were used before. *)
TokensRise == [][\A r \in 0..Reserve : Grant(r) => latest' > top]_vars
=============================================================================
