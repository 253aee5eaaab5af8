------------------------------- MODULE Linger -------------------------------
(* A process that keeps its lease after the last release (WithLinger), so     *)
(* that its next caller makes no call: the lease is parked. In the store it   *)
(* is a lease like any other. A party that wants the resource makes the store *)
(* send a recall to the holder ID. A recall may be late, doubled or lost. The *)
(* process then releases the lease, and the store grants it to the front of   *)
(* the line in that step.                                                     *)
(*                                                                            *)
(* A recall has no state (decision 0138): the store sends one when the line   *)
(* becomes non-empty and when it refuses a party that does not wait, and      *)
(* keeps no flag. So no renewal repeats it, and what bounds a lost one is the *)
(* process: a lease is parked for a linger at most, and is used again for a   *)
(* third of the TTL at most.                                                  *)
(*                                                                            *)
(* Promises 1 to 6 of GUARANTEES.md, as far as a parked lease concerns them.  *)
(* Time is as in Window, with exact clocks. The process may be paused once; a *)
(* pause without an end is a crash. The others keep nothing: each is inside   *)
(* while the store has its lease.                                             *)
EXTENDS Integers, Sequences

CONSTANTS
    Others,
    TTL, Margin,
    Third,      \* how long after its request a lease may be used again
    Linger,     \* how long a lease is parked, at most
    Requests,   \* of the process, at most
    Asks,       \* of the others that wait, at most
    Reserve,    \* tokens that a grant sets aside for local turns; 0: tokens are not counted, and never run out
    Reuses,     \* planted: a recall keeps nobody from a parked lease, and the lease stays parked
    Forgets,    \* planted: a recall of a lease in use is forgotten
    Flags,      \* planted: the store has a flag that it has sent a recall, and does not clear it
    Abrupt,     \* planted: a recall ends a lease in use
    Pushed,     \* planted: a lease that was granted to a waiter is parked as well
    Silent,     \* planted: a lease is parked although no recall could reach the process when it was requested
    OneToken,   \* planted: a local turn has the token of the one before
    Late,       \* planted: a parked lease is taken without a look at the clock
    Endless,    \* planted: a lease may be used again for any time
    NoTimer,    \* planted: a lease is parked for any time
    CloseKeeps  \* planted: Close leaves a parked lease

None == -1
Ids == 1..Requests \* the holder IDs of the process: one for each request

VARIABLES
    holder, left,  \* in the store: who has the lease, and the rest of its TTL
    line,          \* the waiters, the front first
    last,          \* the last token that is given or set aside
    asks,          \* of the others so far
    recalls,       \* IDs to which a recall was sent that may still arrive, at any time and repeatedly
    releases,      \* IDs whose release was sent, of which the same is true
    id,            \* of the process: the ID of its latest request
    at,            \* what it does: nothing, it waits, a caller is inside, its lease is parked, it is closed
    window,        \* the rest of its window
    token, spare,  \* of its latest turn, and how many more are set aside
    keeps,         \* whether its lease may be parked
    wanted,        \* whether it takes its lease for recalled
    heard,         \* whether a recall of its lease has arrived
    age, idle,     \* time since the request for the lease, and since it was parked
    live,          \* whether it is subscribed: "not yet", "yes", "cut"
    paused,        \* "not yet", "now", "over"
    used           \* the token of the latest turn of any party

store == <<holder, left, line, last, asks>>
net == <<recalls, releases>>
own == <<at, window, token, spare, keeps, wanted, heard, age, idle>>
rest == <<live, paused>>
vars == <<store, net, id, own, rest, used>>

TypeOK ==
    /\ holder \in Ids \cup Others \cup {None} /\ left \in 0..TTL
    /\ \A i \in 1..Len(line) : line[i] \in Ids \cup Others
    /\ last \in Nat /\ token \in Nat /\ used \in Nat /\ spare \in 0..Reserve
    /\ recalls \subseteq Ids /\ releases \subseteq Ids
    /\ asks \in 0..Asks /\ id \in 0..Requests
    /\ at \in {"nothing", "waits", "inside", "parked", "closed"}
    /\ window \in 0..TTL /\ age \in 0..Third /\ idle \in 0..Linger
    /\ keeps \in BOOLEAN /\ wanted \in BOOLEAN /\ heard \in BOOLEAN
    /\ live \in {"not yet", "yes", "cut"} /\ paused \in {"not yet", "now", "over"}

Init ==
    /\ holder = None /\ left = 0 /\ line = <<>> /\ last = 0 /\ asks = 0
    /\ recalls = {} /\ releases = {}
    /\ id = 0 /\ at = "nothing" /\ window = 0 /\ token = 0 /\ spare = 0
    /\ keeps = FALSE /\ wanted = FALSE /\ heard = FALSE /\ age = 0 /\ idle = 0
    /\ live = "not yet" /\ paused = "not yet" /\ used = 0

-----------------------------------------------------------------------------
(* What the store does in one step.                                          *)

Waits(p) == \E i \in 1..Len(line) : line[i] = p
Without(p) == SelectSeq(line, LAMBDA q : q # p)

(* The lease goes to p, with a token above all before, or becomes free. The  *)
(* turn of another party begins with the grant.                              *)
Grant(p) ==
    /\ holder' = p /\ left' = IF p = None THEN 0 ELSE TTL
    /\ last' = IF p = None \/ Reserve = 0 THEN last ELSE last + 1 + IF p \in Ids THEN Reserve ELSE 0
    /\ used' = IF p \in Others THEN last' ELSE used

(* The lease goes to the front of the line. *)
Advance ==
    IF line = <<>> THEN Grant(None) /\ line' = line
    ELSE Grant(Head(line)) /\ line' = Tail(line)

(* p joins the line. If it is the first, the store sends a recall to the     *)
(* holder ID, which is lost if the process is not subscribed.                *)
Recall ==
    recalls' = IF holder \in Ids /\ live = "yes" /\ ~(Flags /\ recalls # {}) THEN recalls \cup {holder} ELSE recalls

Join(p) ==
    /\ line' = Append(line, p)
    /\ IF line = <<>> THEN Recall ELSE UNCHANGED recalls
    /\ UNCHANGED <<holder, left, last, used>>

(* It serves a release: that of one ID, so a late one has no effect.         *)
Serve(i) ==
    /\ i \in releases
    /\ IF holder = i THEN Advance ELSE line' = Without(i) /\ UNCHANGED <<holder, left, last, used>>
    /\ UNCHANGED <<asks, net, id, own, rest>>

-----------------------------------------------------------------------------
(* Other parties.                                                            *)

Ask(p) ==
    /\ asks < Asks /\ holder # p /\ ~Waits(p)
    /\ asks' = asks + 1
    /\ IF holder = None THEN Grant(p) /\ UNCHANGED <<line, recalls>> ELSE Join(p)
    /\ UNCHANGED <<releases, id, own, rest>>

(* A request that does not wait is refused. *)
Try == Recall /\ UNCHANGED <<store, releases, id, own, rest, used>>

Withdraw(p) == Waits(p) /\ line' = Without(p) /\ UNCHANGED <<holder, left, last, asks, net, id, own, rest, used>>

Release(p) == holder = p /\ Advance /\ UNCHANGED <<asks, net, id, own, rest>>

-----------------------------------------------------------------------------
(* The process.                                                              *)

Awake == paused # "now"

(* A turn begins with a lease that the store has given. *)
Begin(open) ==
    /\ at' = "inside" /\ window' = open
    /\ token' = last' - Reserve /\ spare' = Reserve /\ used' = token'

(* It sends a request, which releases the parked lease in the same step, if  *)
(* there is one. A lease that is granted at once may be parked later: each   *)
(* recall since then can reach the process, which was subscribed before.     *)
Request ==
    /\ id < Requests /\ id' = id + 1
    /\ wanted' = FALSE /\ heard' = FALSE /\ age' = 0 /\ idle' = 0
    /\ IF line = <<>> /\ holder \in {None, id}
       THEN /\ keeps' = (live = "yes" \/ Silent)
            /\ holder' = id' /\ left' = TTL
            /\ last' = IF Reserve = 0 THEN last ELSE last + 1 + Reserve
            /\ Begin(TTL - Margin)
            /\ UNCHANGED <<line, recalls>>
       ELSE /\ keeps' = (live = "yes" /\ Pushed)
            /\ at' = "waits" /\ window' = 0 /\ token' = 0 /\ spare' = 0
            /\ IF holder = id
               THEN Grant(Head(line)) /\ line' = Append(Tail(line), id') /\ UNCHANGED recalls
               ELSE Join(id')
    /\ UNCHANGED <<asks, releases, rest>>

(* A lease that was granted to it while it waited. *)
Enter ==
    /\ Awake /\ at = "waits" /\ holder = id /\ left > Margin
    /\ last' = last /\ Begin(left - Margin)
    /\ UNCHANGED <<holder, left, line, asks, net, id, keeps, wanted, heard, age, idle, rest>>

(* It sends the release, or its withdrawal. *)
SendRelease(then) ==
    /\ releases' = releases \cup {id}
    /\ at' = then /\ window' = 0 /\ token' = 0 /\ spare' = 0
    /\ keeps' = FALSE /\ wanted' = FALSE /\ heard' = FALSE /\ age' = 0 /\ idle' = 0

(* The last caller releases: the lease is parked, or released in the store. *)
Leave ==
    /\ Awake /\ at = "inside"
    /\ \/ /\ keeps /\ ~wanted
          /\ at' = "parked" /\ idle' = 0
          /\ UNCHANGED <<releases, window, token, spare, keeps, wanted, heard, age>>
       \/ SendRelease("nothing")
    /\ UNCHANGED <<store, recalls, id, rest, used>>

(* The next caller of the process takes a parked lease, if no recall is      *)
(* known, its window is open, its request was not long ago and a token is    *)
(* left. Otherwise it requests another.                                      *)
Usable ==
    /\ ~wanted \/ Reuses
    /\ (window > 0 /\ (age < Third \/ Endless)) \/ Late
    /\ spare > 0 \/ Reserve = 0

Take ==
    /\ Awake /\ at = "parked" /\ Usable
    /\ at' = "inside" /\ idle' = 0
    /\ IF Reserve = 0 \/ OneToken THEN UNCHANGED <<token, spare, used>>
       ELSE token' = token + 1 /\ spare' = spare - 1 /\ used' = token'
    /\ UNCHANGED <<store, net, id, window, keeps, wanted, heard, age, rest>>

Acquire == Awake /\ (at = "nothing" \/ (at = "parked" /\ ~Usable)) /\ Request

(* The lease is recalled, or may have been: if it is parked, it is released  *)
(* at once; if a caller is inside, when that one releases.                   *)
Want(recalled) ==
    IF at = "parked" /\ ~Reuses THEN SendRelease("nothing")
    ELSE /\ wanted' = (at \in {"inside", "parked"} /\ ~(Forgets /\ at = "inside"))
         /\ heard' = (recalled /\ at \in {"inside", "parked"})
         /\ releases' = IF Abrupt /\ at = "inside" THEN releases \cup {id} ELSE releases
         /\ UNCHANGED <<at, window, token, spare, keeps, age, idle>>

(* A recall arrives, and may arrive again. One for an earlier ID is ignored. *)
Hear ==
    /\ Awake /\ id \in recalls /\ Want(TRUE)
    /\ UNCHANGED <<store, recalls, id, rest, used>>

(* It subscribes. If it was subscribed before, it may have missed a recall. *)
Listen ==
    /\ Awake /\ live # "yes" /\ live' = "yes"
    /\ IF live = "cut" THEN Want(heard) ELSE UNCHANGED <<releases, own>>
    /\ UNCHANGED <<store, recalls, id, paused, used>>

Cut == live = "yes" /\ live' = "cut" /\ UNCHANGED <<store, net, id, own, paused, used>>

(* The timer of a parked lease. *)
Due == at = "parked" /\ idle = Linger /\ ~NoTimer
Over == Awake /\ Due /\ SendRelease("nothing") /\ UNCHANGED <<store, recalls, id, rest, used>>

(* A lease is renewed as long as it is used or parked. *)
Renew ==
    /\ Awake /\ at \in {"inside", "parked"} /\ window > 0 /\ holder = id
    /\ left' = TTL /\ window' = TTL - Margin
    /\ UNCHANGED <<holder, line, last, asks, net, id, at, token, spare, keeps, wanted, heard, age, idle, rest, used>>

Close ==
    /\ Awake /\ at # "closed"
    /\ IF CloseKeeps /\ at = "parked"
       THEN at' = "closed" /\ window' = 0 /\ UNCHANGED <<releases, token, spare, keeps, wanted, heard, age, idle>>
       ELSE IF at = "nothing" THEN at' = "closed" /\ UNCHANGED <<releases, window, token, spare, keeps, wanted, heard, age, idle>>
       ELSE SendRelease("closed")
    /\ UNCHANGED <<store, recalls, id, rest, used>>

Pause == paused = "not yet" /\ paused' = "now" /\ UNCHANGED <<store, net, id, own, live, used>>
Resume == paused = "now" /\ paused' = "over" /\ UNCHANGED <<store, net, id, own, live, used>>

-----------------------------------------------------------------------------
Less(n) == IF n = 0 THEN 0 ELSE n - 1
More(n, most) == IF n = most THEN n ELSE n + 1

(* Time passes. Who is inside when the window closes is notified at that     *)
(* moment. Nobody is notified of a parked lease: it is in the memory of the  *)
(* process only. Its timer runs unless the process is paused.                *)
Tick ==
    /\ ~(Awake /\ Due)
    /\ IF left <= 1 THEN Advance ELSE left' = left - 1 /\ UNCHANGED <<holder, line, last, used>>
    /\ IF (at = "inside" /\ window <= 1) \/ (at = "waits" /\ holder = id /\ left <= 1)
       THEN SendRelease("nothing")
       ELSE /\ window' = Less(window)
            /\ age' = IF at \in {"inside", "parked"} THEN More(age, Third) ELSE age
            /\ idle' = IF at = "parked" THEN More(idle, Linger) ELSE idle
            /\ UNCHANGED <<releases, at, token, spare, keeps, wanted, heard>>
    /\ UNCHANGED <<asks, recalls, id, rest>>

Next ==
    \/ Tick \/ Try
    \/ \E p \in Others : Ask(p) \/ Withdraw(p) \/ Release(p)
    \/ \E i \in Ids : Serve(i)
    \/ Acquire \/ Enter \/ Leave \/ Take \/ Hear \/ Listen \/ Cut \/ Over \/ Renew \/ Close \/ Pause \/ Resume

(* Time goes on, callers leave, timers run. No message needs to arrive.      *)
Fairness == WF_vars(Tick) /\ WF_vars(Leave) /\ WF_vars(Over)

Spec == Init /\ [][Next]_vars
LiveSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* 1. While the window is open the store has given the lease to nobody else. *)
Exclusion == window > 0 => holder = id

(* 2. Notified in time: a caller is inside only while the window is open, and *)
(* so is one that took a parked lease.                                       *)
Notified == at = "inside" => window > 0

(* 3. Each turn has a higher token than all before, a local one too. *)
Begins == (at' = "inside" /\ at # "inside") \/ (holder' \in Others /\ holder' # holder)
TokensRise == [][Begins => used' > used]_vars

(* A lease whose recall has arrived is not parked: nobody takes it.          *)
Obeyed == at = "parked" => ~heard

(* Behind a parked lease no waiter is forgotten: a recall was sent, which     *)
(* arrives or is lost.                                                        *)
Recalled == at = "parked" /\ holder = id /\ line # <<>> /\ live = "yes" => id \in recalls

(* 6. The process knows each lease of its own, or has sent its release. *)
NoneLeft == holder \in Ids \ releases => holder = id /\ at \in {"waits", "inside", "parked"}

(* 4. Who waits is granted, also if all recalls and releases are lost and the *)
(* process has crashed.                                                      *)
Granted == \A p \in Others : Waits(p) ~> ~Waits(p)
=============================================================================
