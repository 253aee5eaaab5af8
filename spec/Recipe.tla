-------------------------------- MODULE Recipe -------------------------------
(* The locks of articles on one key with a TTL, and the smallest change that  *)
(* has each of their holes. With no hole planted it is the common best: one   *)
(* SET with NX and PX, a value of its own for each attempt, and a release     *)
(* that compares and deletes in one step. That holds as long as its holder is *)
(* not paused past the TTL; see Fence for what is left then.                  *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Clients,
    TTL,
    Attempts,       \* of a client, at most
    Apart,          \* SETNX, and EXPIRE in a second step
    Blind,          \* the release deletes the key, whoever has it
    GetThenDelete,  \* the release reads, compares, and deletes in a second step
    Finally,        \* a failed attempt releases too
    OneValue,       \* a client uses one value for all its attempts, and a release may arrive late
    Resends,        \* an attempt whose reply was lost is sent again as a new one
    Misquoted       \* the release deletes another key

None == <<"none", 0>>

VARIABLES
    key,     \* the value in the store
    expires, \* the rest of its TTL; 0: it has none, or there is no key
    at,      \* by client: where it is
    rest,    \* by client: the rest of the TTL that it counts on
    tries,   \* by client
    late     \* releases that are under way

vars == <<key, expires, at, rest, tries, late>>

Values == (Clients \X (0..Attempts)) \cup {None}
Value(c) == IF OneValue THEN <<c, 0>> ELSE <<c, tries[c]>>

TypeOK ==
    /\ key \in Values /\ expires \in 0..TTL
    /\ at \in [Clients -> {"out", "set", "in", "read", "refused", "unsure", "dead"}]
    /\ rest \in [Clients -> 0..TTL] /\ tries \in [Clients -> 0..Attempts] /\ late \subseteq Values

Init ==
    /\ key = None /\ expires = 0
    /\ at = [c \in Clients |-> "out"] /\ rest = [c \in Clients |-> 0]
    /\ tries = [c \in Clients |-> 0] /\ late = {}

Go(c, place) == at' = [at EXCEPT ![c] = place]

Try(c) ==
    /\ at[c] = "out" /\ tries[c] < Attempts
    /\ tries' = [tries EXCEPT ![c] = @ + 1]
    /\ IF key = None
       THEN /\ key' = IF OneValue THEN <<c, 0>> ELSE <<c, tries[c] + 1>>
            /\ expires' = IF Apart THEN 0 ELSE TTL
            /\ \/ Go(c, IF Apart THEN "set" ELSE "in") /\ rest' = [rest EXCEPT ![c] = TTL]
               \/ Resends /\ Go(c, "unsure") /\ UNCHANGED rest  \* the reply is lost
       ELSE /\ Go(c, IF Finally THEN "refused" ELSE "out")
            /\ UNCHANGED <<key, expires, rest>>
    /\ UNCHANGED late

Expire(c) ==
    /\ at[c] = "set" /\ Go(c, "in") /\ expires' = IF key = None THEN 0 ELSE TTL
    /\ rest' = [rest EXCEPT ![c] = TTL]
    /\ UNCHANGED <<key, tries, late>>

Resend(c) ==
    /\ at[c] = "unsure" /\ Go(c, "out")
    /\ UNCHANGED <<key, expires, rest, tries, late>>

Delete == key' = None /\ expires' = 0
Leave(c, place) == Go(c, place) /\ rest' = [rest EXCEPT ![c] = 0]

Release(c) ==
    /\ at[c] \in {"in", "refused"}
    /\ CASE Misquoted -> UNCHANGED <<key, expires>> /\ Leave(c, "out") /\ UNCHANGED late
         [] GetThenDelete ->
              /\ IF key = Value(c) THEN Leave(c, "read") ELSE Leave(c, "out")
              /\ UNCHANGED <<key, expires, late>>
         [] OneValue -> late' = late \cup {Value(c)} /\ Leave(c, "out") /\ UNCHANGED <<key, expires>>
         [] OTHER ->
              /\ IF Blind \/ Finally \/ key = Value(c) THEN Delete ELSE UNCHANGED <<key, expires>>
              /\ Leave(c, "out") /\ UNCHANGED late
    /\ UNCHANGED tries

DeleteAfterRead(c) == at[c] = "read" /\ Delete /\ Go(c, "out") /\ UNCHANGED <<rest, tries, late>>

Arrive(v) ==
    /\ v \in late /\ late' = late \ {v}
    /\ IF key = v THEN Delete ELSE UNCHANGED <<key, expires>>
    /\ UNCHANGED <<at, rest, tries>>

Die(c) == at[c] # "dead" /\ Leave(c, "dead") /\ UNCHANGED <<key, expires, tries, late>>

Less(n) == IF n = 0 THEN 0 ELSE n - 1

Tick ==
    /\ expires' = Less(expires)
    /\ key' = IF expires = 1 THEN None ELSE key
    /\ rest' = [c \in Clients |-> Less(rest[c])]
    /\ UNCHANGED <<at, tries, late>>

Next ==
    \/ Tick
    \/ \E v \in late : Arrive(v)
    \/ \E c \in Clients : Try(c) \/ Expire(c) \/ Resend(c) \/ Release(c) \/ DeleteAfterRead(c) \/ Die(c)

Spec == Init /\ [][Next]_vars /\ WF_vars(Tick) /\ \A c \in Clients : WF_vars(Release(c)) /\ WF_vars(Resend(c))

-----------------------------------------------------------------------------
(* Whose TTL is not over, holds: never two. *)
Exclusion == Cardinality({c \in Clients : at[c] = "in" /\ rest[c] > 0}) <= 1

(* The key does not stay for ever. *)
Free == []<>(key = None)

(* After the last release the key is free at once, and not only by its TTL. *)
NotLeft == (\A c \in Clients : at[c] = "out") /\ late = {} => key = None

(* A client is not kept out by its own key. *)
NotItself == \A c \in Clients : ~(at[c] = "out" /\ key # None /\ key[1] = c /\ late = {})
=============================================================================
