------------------------------ MODULE TokenTrace ------------------------------
(* Whether the code takes the steps of Token. The traces are those of         *)
(* QueueTrace. Of each call they have the tokens of the leases that it has    *)
(* made, in their order, and the last token that the store shows after it.    *)
(* Instants and tokens count from the first call, in microseconds.            *)
EXTENDS Token, TokenTraces, Integers, Sequences, TLC

VARIABLES
    trace,  \* the number of the trace
    at,     \* its next event
    due     \* the time that passes before that

T == Traces[trace]
E == T[at]

After(i) == IF i <= Len(T) THEN T[i].after ELSE 0

TraceInit == Init /\ trace \in 1..Len(Traces) /\ at = 1 /\ due = Traces[trace][1].after

Time == due > 0 /\ Pass(due) /\ due' = 0 /\ UNCHANGED <<trace, at>>

Agrees == (E.grant => latest' = E.token) /\ (E.shown => last' = E.last)

Event ==
    /\ due = 0 /\ at <= Len(T)
    /\ IF E.grant THEN Grant(E.reserve) ELSE UNCHANGED vars
    /\ IF ~Agrees THEN PrintT(<<"differs", trace, at, latest', last'>>) /\ FALSE
       ELSE at = Len(T) => PrintT(<<"accepted", trace>>)
    /\ at' = at + 1 /\ due' = After(at + 1)
    /\ UNCHANGED trace

TraceSpec == TraceInit /\ [][Time \/ Event]_<<vars, trace, at, due>>

(* 3. Each grant has a higher token than all that were used before. *)
Rises == [][at' > at /\ E.grant => latest' > top]_<<vars, trace, at, due>>
=============================================================================
