------------------------------- MODULE Window -------------------------------
(* The trust window: how a holder knows, by its own clock alone, that the     *)
(* store cannot have given its lease to another.                             *)
(*                                                                            *)
(* A client counts its window from the moment at which it SENT the request    *)
(* that was granted, and makes it shorter than the TTL by a margin. The store *)
(* counts the TTL from the moment at which the request arrived, which is      *)
(* later. So the window closes first, if clocks run at nearly the same rate.  *)
(* Requests and replies are delayed, lost, repeated and reordered. A client   *)
(* may be paused at any point; its clock goes on.                             *)
(*                                                                            *)
(* Promises 1 and 2 of GUARANTEES.md on one Redis.                            *)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Clients,
    TTL,        \* of a lease, in ticks of the store's clock
    Margin,     \* by which the window is shorter
    Drift,      \* how many ticks a client's clock may lose in a TTL
    Sends,      \* requests of a client, at most
    FromReply,  \* planted: the window counts from the reply
    Announces   \* FALSE is planted: a holder is not notified when the window closes

None == "none"

VARIABLES
    holder, left,  \* in the store: who has the lease, and the rest of its TTL
    net,           \* the messages under way, which may arrive at any time, or twice, or never
    sent,          \* by client: how many requests it has sent
    age,           \* by client and request: time since it was sent, by the client's clock
    window,        \* by client: the rest of its window, by its clock
    lag,           \* by client: the ticks that its clock has lost
    inside         \* the clients that believe that they hold the lease

vars == <<holder, left, net, sent, age, window, lag, inside>>

Ids == 1..Sends
Messages == [to : {"store"}, from : Clients, id : Ids] \cup [to : Clients, id : Ids]

TypeOK ==
    /\ holder \in Clients \cup {None}
    /\ left \in 0..TTL
    /\ net \subseteq Messages
    /\ sent \in [Clients -> 0..Sends]
    /\ age \in [Clients -> [Ids -> 0..TTL]]
    /\ window \in [Clients -> 0..TTL]
    /\ lag \in [Clients -> 0..Drift]
    /\ inside \subseteq Clients

Init ==
    /\ holder = None /\ left = 0 /\ net = {}
    /\ sent = [c \in Clients |-> 0]
    /\ age = [c \in Clients |-> [i \in Ids |-> 0]]
    /\ window = [c \in Clients |-> 0]
    /\ lag = [c \in Clients |-> 0]
    /\ inside = {}

(* A client asks for the lease, or renews it: the same request. *)
Send(c) ==
    /\ sent[c] < Sends
    /\ sent' = [sent EXCEPT ![c] = @ + 1]
    /\ net' = net \cup {[to |-> "store", from |-> c, id |-> sent[c] + 1]}
    /\ UNCHANGED <<holder, left, age, window, lag, inside>>

(* The store serves a request. A message stays in net, so it may come again. *)
Serve(m) ==
    /\ m.to = "store"
    /\ holder \in {None, m.from}
    /\ holder' = m.from
    /\ left' = TTL
    /\ net' = net \cup {[to |-> m.from, id |-> m.id]}
    /\ UNCHANGED <<sent, age, window, lag, inside>>

Rest(c, id) ==
    LET used == Margin + (IF FromReply THEN 0 ELSE age[c][id])
    IN IF used >= TTL THEN 0 ELSE TTL - used

(* A reply arrives. A client that is paused takes it later, which is a delay. *)
Receive(m) ==
    /\ m.to \in Clients
    /\ LET c == m.to
           rest == Rest(c, m.id)
       IN /\ window' = [window EXCEPT ![c] = IF rest > @ THEN rest ELSE @]
          /\ inside' = IF rest > 0 THEN inside \cup {c} ELSE inside
    /\ net' = net \ {m}
    /\ UNCHANGED <<holder, left, sent, age, lag>>

(* The client is notified, leaves, and from then on sends nothing that the    *)
(* store could take for a wish to hold: its old requests are withdrawn.       *)
Leave(c) ==
    /\ c \in inside
    /\ inside' = inside \ {c}
    /\ window' = [window EXCEPT ![c] = 0]
    /\ net' = {m \in net : (IF m.to = "store" THEN m.from # c ELSE m.to # c)}
    /\ sent' = [sent EXCEPT ![c] = Sends]
    /\ IF holder = c THEN holder' = None /\ left' = 0 ELSE UNCHANGED <<holder, left>>
    /\ UNCHANGED <<age, lag>>

Older(c, by) == [i \in Ids |-> IF i > sent[c] THEN 0 ELSE IF age[c][i] + by > TTL THEN TTL ELSE age[c][i] + by]
Less(n, by) == IF n < by THEN 0 ELSE n - by

(* Time passes. Each client's clock goes on by a tick, or loses it. Who is    *)
(* inside when the window closes is notified at that moment.                  *)
Tick ==
    \E slow \in SUBSET {c \in Clients : lag[c] < Drift} :
        /\ left' = Less(left, 1)
        /\ holder' = IF left <= 1 THEN None ELSE holder
        /\ age' = [c \in Clients |-> Older(c, IF c \in slow THEN 0 ELSE 1)]
        /\ window' = [c \in Clients |-> Less(window[c], IF c \in slow THEN 0 ELSE 1)]
        /\ lag' = [c \in Clients |-> IF c \in slow THEN lag[c] + 1 ELSE lag[c]]
        /\ inside' = IF Announces THEN {c \in inside : window'[c] > 0} ELSE inside
        /\ UNCHANGED <<net, sent>>

Next ==
    \/ \E c \in Clients : Send(c) \/ Leave(c)
    \/ \E m \in net : Serve(m) \/ Receive(m)
    \/ Tick

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* 1. No two open windows. *)
Exclusion == Cardinality({c \in Clients : window[c] > 0}) <= 1

(* 2. Notified in time: whoever believes that it holds does so while the store *)
(* can give the lease to nobody else.                                          *)
Notified == \A c \in inside : holder = c
=============================================================================
