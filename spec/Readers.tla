------------------------------ MODULE Readers -------------------------------
(* Readers of one process share a lease of the store, and a writer that waits *)
(* is not starved by them (decision 0140). One reader requests the lease; all *)
(* that wait in the process at the grant get a seat, and each of them enters  *)
(* or gives up. Newcomers join the lease without a call while no writer can   *)
(* wait: the door is open. The last to leave releases.                        *)
(*                                                                            *)
(* A writer that is the first to wait makes the store send a recall to each   *)
(* lease of readers. It closes the door: the next newcomer requests a lease   *)
(* of its own, which queues behind the writer. A recall may be late or lost,  *)
(* so the door also closes a second after the request. A process may die: its *)
(* readers are gone, and its leases end with their TTL.                       *)
(*                                                                            *)
(* Promises 1, 4, 5 and 6 of GUARANTEES.md. Left out are windows (Window): a  *)
(* lease of a process that lives lasts; and that after a wait, where recalls  *)
(* may have been missed, newcomers join for a millisecond.                    *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Processes,
    Readers,      \* in each process
    Writers,
    Requests,     \* of a process, at most
    Passes,       \* planted: newcomers pass a writer of which they know
    Endless,      \* planted: newcomers join as long as there are readers
    Pushed,       \* planted: the door is open as well after a wait
    One,          \* planted: a writer recalls one lease only
    First,        \* planted: the first reader to leave releases the lease
    Seatless,     \* planted: a lease is released although a caller has a seat
    Stays         \* planted: the last reader does not release

Callers == Processes \X Readers
Ids == Processes \X (1..Requests)
No == <<>>

VARIABLES
    holders,   \* in the store: the IDs with a lease, or a writer
    line,      \* the waiters, the front first
    recalls,   \* the IDs to which a recall was sent, which may arrive at any time, or never
    asked,     \* by process: how many requests it has sent
    at,        \* by caller: where it is, and with which ID
    open,      \* the IDs whose lease newcomers join
    told,      \* the IDs whose recall has arrived
    dead       \* the processes that have died

vars == <<holders, line, recalls, asked, at, open, told, dead>>

Out == [is |-> "out", id |-> No]
Places == {"out", "waits", "seat", "inside"}

TypeOK ==
    /\ holders \subseteq Ids \cup Writers
    /\ recalls \subseteq Ids /\ told \subseteq recalls /\ open \subseteq Ids
    /\ asked \in [Processes -> 0..Requests] /\ dead \subseteq Processes
    /\ \A c \in Callers : at[c].is \in Places /\ at[c].id \in Ids \cup {No}

Init ==
    /\ holders = {} /\ line = <<>> /\ recalls = {}
    /\ asked = [p \in Processes |-> 0]
    /\ at = [c \in Callers |-> Out]
    /\ open = {} /\ told = {} /\ dead = {}

-----------------------------------------------------------------------------
(* The store: readers together, or one writer; first come, first served.     *)

Waits(x) == \E i \in 1..Len(line) : line[i] = x
Fits(x, held) == held = {} \/ (x \in Ids /\ held \subseteq Ids)

RECURSIVE Advance(_, _)
Advance(held, l) ==
    IF l = <<>> \/ ~Fits(Head(l), held) THEN [holders |-> held, line |-> l]
    ELSE Advance(held \cup {Head(l)}, Tail(l))

Settle(s) == holders' = s.holders /\ line' = s.line
Drop(gone) == Settle(Advance(holders \ gone, SelectSeq(line, LAMBDA x : x \notin gone)))

-----------------------------------------------------------------------------
(* Writers.                                                                  *)

Ask(w) ==
    /\ w \notin holders /\ ~Waits(w)
    /\ IF holders = {} /\ line = <<>>
       THEN holders' = {w} /\ UNCHANGED <<line, recalls>>
       ELSE /\ line' = Append(line, w) /\ UNCHANGED holders
            /\ recalls' = IF line # <<>> THEN recalls
                          ELSE recalls \cup IF One THEN {CHOOSE i \in holders : TRUE} \cap Ids ELSE holders \cap Ids
    /\ UNCHANGED <<asked, at, open, told, dead>>

Done(w) == w \in holders /\ Drop({w}) /\ UNCHANGED <<recalls, asked, at, open, told, dead>>

-----------------------------------------------------------------------------
(* The readers of a process.                                                 *)

Of(c) == c[1]
Using(a, id) == {c \in Callers : a[c].id = id /\ a[c].is \in {"seat", "inside"}}

(* A newcomer joins the latest lease of its process, if its door is open.    *)
Joins(p) == {id \in holders : id \in Ids /\ id[1] = p /\ Using(at, id) # {} /\ id \in open}

Join(c) ==
    /\ at[c] = Out /\ Joins(Of(c)) # {}
    /\ \E id \in Joins(Of(c)) : at' = [at EXCEPT ![c] = [is |-> "inside", id |-> id]]
    /\ UNCHANGED <<holders, line, recalls, asked, open, told, dead>>

(* Otherwise it waits in its process. The first in line sends a request.     *)
Pending(p) == \E c \in Callers : Of(c) = p /\ at[c].is = "waits"

Request(c) ==
    LET p == Of(c)
        id == <<p, asked[p] + 1>>
        now == holders \subseteq Ids /\ line = <<>>
    IN /\ p \notin dead /\ at[c] = Out /\ Joins(p) = {} /\ ~Pending(p) /\ asked[p] < Requests
       /\ asked' = [asked EXCEPT ![p] = @ + 1]
       /\ IF now
          THEN /\ holders' = holders \cup {id} /\ open' = open \cup {id} /\ UNCHANGED line
               /\ at' = [at EXCEPT ![c] = [is |-> "seat", id |-> id]]
          ELSE /\ line' = Append(line, id) /\ UNCHANGED <<holders, open>>
               /\ at' = [at EXCEPT ![c] = [is |-> "waits", id |-> id]]
       /\ UNCHANGED <<recalls, told, dead>>

Queue(c) ==
    /\ Of(c) \notin dead /\ at[c] = Out /\ Joins(Of(c)) = {} /\ Pending(Of(c))
    /\ at' = [at EXCEPT ![c] = [is |-> "waits", id |-> <<Of(c), asked[Of(c)]>>]]
    /\ UNCHANGED <<holders, line, recalls, asked, open, told, dead>>

(* The grant arrives: all that wait in the process get a seat. The door stays *)
(* closed: a writer behind it may have come too early to send a recall.      *)
Seat(p) ==
    LET id == <<p, asked[p]>>
        mine == {c \in Callers : Of(c) = p /\ at[c].is = "waits"}
    IN /\ p \notin dead /\ id \in holders /\ mine # {}
       /\ at' = [c \in Callers |-> IF c \in mine THEN [is |-> "seat", id |-> id] ELSE at[c]]
       /\ open' = IF Pushed THEN open \cup ({id} \ told) ELSE open
       /\ UNCHANGED <<holders, line, recalls, asked, told, dead>>

(* Who has a seat enters, or gives up, as does who waits. The last one of a  *)
(* lease releases it.                                                        *)
Enter(c) ==
    /\ at[c].is = "seat"
    /\ at' = [at EXCEPT ![c].is = "inside"]
    /\ UNCHANGED <<holders, line, recalls, asked, open, told, dead>>

(* Recalls of a lease that has ended are ignored. *)
End(id) == Drop({id}) /\ open' = open \ {id} /\ recalls' = recalls \ {id} /\ told' = told \ {id}

Last(c) ==
    LET id == at[c].id
        rest == {d \in Callers \ {c} : at[d].id = id /\ (Seatless => at[d].is # "seat")}
    IN (rest = {} \/ First) /\ ~Stays

Leave(c) ==
    /\ at[c] # Out
    /\ at' = [at EXCEPT ![c] = Out]
    /\ IF Last(c) THEN End(at[c].id) ELSE UNCHANGED <<holders, line, recalls, open, told>>
    /\ UNCHANGED <<asked, dead>>

(* A recall arrives, or a second has passed since the request: the door      *)
(* closes.                                                                   *)
Hear(id) ==
    /\ id \in recalls \ told /\ id[1] \notin dead
    /\ told' = told \cup {id} /\ open' = IF Passes THEN open ELSE open \ {id}
    /\ UNCHANGED <<holders, line, recalls, asked, at, dead>>

Second(id) ==
    /\ id \in open /\ ~Endless
    /\ open' = open \ {id}
    /\ UNCHANGED <<holders, line, recalls, asked, at, told, dead>>

Die(p) ==
    /\ p \notin dead /\ dead' = dead \cup {p}
    /\ at' = [c \in Callers |-> IF Of(c) = p THEN Out ELSE at[c]]
    /\ open' = {id \in open : id[1] # p}
    /\ UNCHANGED <<holders, line, recalls, asked, told>>

(* The TTL of a lease of a dead process is over, or its place in the line.   *)
Expire(id) ==
    /\ id[1] \in dead /\ (id \in holders \/ Waits(id))
    /\ End(id) /\ UNCHANGED <<asked, at, dead>>

-----------------------------------------------------------------------------
Next ==
    \/ \E w \in Writers : Ask(w) \/ Done(w)
    \/ \E c \in Callers : Join(c) \/ Request(c) \/ Queue(c) \/ Enter(c) \/ Leave(c)
    \/ \E p \in Processes : Seat(p) \/ Die(p)
    \/ \E id \in Ids : Hear(id) \/ Second(id) \/ Expire(id)

(* Who is inside leaves, and who is granted enters. Recalls need not arrive. *)
Fairness ==
    /\ \A w \in Writers : WF_vars(Done(w))
    /\ \A c \in Callers : WF_vars(Enter(c)) /\ WF_vars(at[c].is = "inside" /\ Leave(c))
    /\ \A p \in Processes : WF_vars(Seat(p))
    /\ \A id \in Ids : WF_vars(Second(id)) /\ WF_vars(Expire(id))

Spec == Init /\ [][Next]_vars
LiveSpec == Spec /\ Fairness

Inside == {c \in Callers : at[c].is = "inside"}

(* 1. No reader together with a writer; each reader has a lease. *)
Exclusion == \A c \in Inside : at[c].id \in holders /\ holders \cap Writers = {}

(* 5. No newcomer joins a lease whose recall has arrived. *)
Order == [][\A c \in Callers : at[c] = Out /\ at'[c].is = "inside" => at'[c].id \notin told]_vars

(* While a writer waits, a recall was sent to each lease whose door is open. *)
Recalled == (\E w \in Writers : Waits(w)) => open \subseteq recalls

(* 6. A lease in the store has a user, or its process is dead.               *)
NoneLeft == \A id \in holders \cap Ids : id[1] \in dead \/ \E c \in Callers : at[c].id = id

(* 4. A writer is granted, whatever is lost and whoever dies. *)
Granted == \A w \in Writers : Waits(w) ~> w \in holders
=============================================================================
