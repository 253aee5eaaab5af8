------------------------------ MODULE QueueTrace ------------------------------
(* Whether the code takes the steps of Queue. A trace is what lab/trace has   *)
(* recorded at the boundary of an engine, for one resource: each call with    *)
(* the time since the one before, its answer, and what the store shows after  *)
(* it. It is accepted if the same calls, at the same times, take Queue        *)
(* through states that show the same. A trace does not record when waiters    *)
(* that died long ago were dropped, so this may be at any time.               *)
(*                                                                            *)
(* TLC checks all traces of a run in one start. It prints which are accepted, *)
(* and of the others at which event they differ.                              *)
EXTENDS Queue, QueueTraces, TLC

VARIABLES
    trace,  \* the number of the trace
    at,     \* its next event
    due     \* the time that passes before that

T == Traces[trace]
E == T.events[at]

(* What is fixed for each ID of a trace; in place of Queue's own. *)
WeightOf(id) == T.weights[id]
LastsOf(id) == T.lasts[id]

After(i) == IF i <= Len(T.events) THEN T.events[i].after ELSE 0

TraceInit ==
    /\ Init
    /\ trace \in 1..Len(Traces) /\ at = 1
    /\ due = Traces[trace].events[1].after

Time == due > 0 /\ Pass(due) /\ due' = 0 /\ UNCHANGED <<dead, renewed, trace, at>>

Unseen == due = 0 /\ \E S \in SUBSET Long \ {{}} : Drop(S) /\ UNCHANGED <<dead, renewed, trace, at, due>>

Call ==
    CASE E.op = "ask"   -> Ask(E.id, E.waits, E.yields)
      [] E.op = "renew" -> Extend(E.id, E.ttl)
      [] E.op = "leave" -> Leave(E.id)
      [] E.op = "break" -> Cancel(E.id, E.force)

(* The answer to a call, after it. *)
Says ==
    CASE E.op = "ask" /\ E.id \in ended'             -> "ended"
      [] E.op = "ask" /\ left'[E.id] > 0             -> "granted"
      [] E.op = "ask" /\ E.id \in Range(line')       -> "queued"
      [] E.op = "renew" /\ E.id \notin ended' /\ left'[E.id] > 0 -> "done"
      [] E.op = "leave" /\ left[E.id] # None /\ E.id \notin breaking -> "done"
      [] E.op = "leave"                              -> E.says
      [] E.op = "break" /\ (left[E.id] > 0 \/ E.id \in Range(line)) -> "done"
      [] OTHER                                       -> "no"

Agrees ==
    /\ E.says = Says
    /\ E.op = "ask" /\ Says = "queued" => E.place < Len(line') /\ line'[E.place + 1] = E.id
    /\ E.op = "ask" /\ Says = "granted" => left'[E.id] = E.rest
    /\ {<<id, left'[id]>> : id \in {i \in Ids : left'[i] > 0}} = E.holds
    /\ SelectSeq(line', LAMBDA id : seen'[id] < Life) = E.line

Event ==
    /\ due = 0 /\ at <= Len(T.events)
    /\ Call
    /\ IF ~Agrees THEN PrintT(<<"differs", trace, at, Says, left', line'>>) /\ FALSE
       ELSE at = Len(T.events) => PrintT(<<"accepted", trace>>)
    /\ at' = at + 1 /\ due' = After(at + 1)
    /\ UNCHANGED <<dead, renewed, trace>>

TraceSpec == TraceInit /\ [][Time \/ Unseen \/ Event]_<<vars, trace, at, due>>
=============================================================================
