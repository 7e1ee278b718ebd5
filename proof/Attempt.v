(* SPDX-License-Identifier: BSD-2-Clause

   src/core/tally.c and src/core/attempt.c as functions, statement by statement, for an ordinary lock in
   classic mode. Refinement.v proves what they do; proof/extracted/lease.ml compares them with the C code.

   A step is a function of (state, event, time). In C it fills a struct with actions; here the actions
   of the last step are fields of the state. *)
Require Import ZArith NArith List Bool.
From Redlock Require Import Arithmetic.
Import ListNotations.
Open Scope Z_scope.

(* x <| field := v |>: the record with another value in one field. `eta` rebuilds it field by field. *)
Definition changed {A : Type} (f : A -> A) (x : A) : A := f x.
Ltac with_field eta field v :=
  let rebuilt := eval cbv beta delta [eta] in eta in
  match eval pattern field in rebuilt with
  | ?f _ => let changed := eval cbv beta in (f (fun _ => v)) in exact changed
  end.

(* ---- sets of nodes: rl_mask ---- *)

Definition mask := N.
Definition none : mask := 0%N.
Definition bit (n : nat) : mask := N.shiftl 1 (N.of_nat n).
Definition has (m : mask) (n : nat) : bool := N.testbit m (N.of_nat n).
Definition all (nodes : nat) : mask := N.ones (N.of_nat nodes).
Definition or (a b : mask) : mask := N.lor a b.
Definition and (a b : mask) : mask := N.land a b.
Definition less (a b : mask) : mask := N.ldiff a b. (* a & ~b *)
Definition is_none (m : mask) : bool := N.eqb m 0.

Fixpoint count_below (n : nat) (m : mask) : nat :=
  match n with
  | O => O
  | S n => if has m n then S (count_below n m) else count_below n m
  end.
Definition count (m : mask) : nat := count_below 16 m.

(* ---- one round of votes: rl_tally ---- *)

Inductive answer := No_answer | Granted | Denied | Absent | Stale | Failed. (* enum rl_vote *)

Record tally := { asked : mask; granted : mask; denied : mask; absent : mask; failed : mask }.
Definition of_tally (t : tally) : tally :=
  Build_tally (asked t) (granted t) (denied t) (absent t) (failed t).
Notation "x <| f := v |>t" := (changed ltac:(with_field of_tally f v) x)
  (at level 12, left associativity, f at next level, v at level 200, only parsing).

Definition empty_tally : tally := {| asked := none; granted := none; denied := none; absent := none; failed := none |}.
Definition tally_open (nodes : nat) (m : mask) : tally :=
  {| asked := and m (all nodes); granted := none; denied := none; absent := none; failed := less (all nodes) m |}.
Definition pending (t : tally) : mask := less (asked t) (or (or (granted t) (denied t)) (or (absent t) (failed t))).

(* Whether rl_tally_vote() counts it, and what it makes of the tally then. *)
Definition takes (nodes : nat) (t : tally) (n : nat) (v : answer) : bool :=
  (n <? nodes)%nat && has (pending t) n && match v with No_answer => false | _ => true end.
Definition tally_vote (t : tally) (n : nat) (v : answer) : tally :=
  match v with
  | No_answer => t
  | Granted => t <| granted := or (granted t) (bit n) |>t
  | Denied => t <| denied := or (denied t) (bit n) |>t
  | Absent => t <| absent := or (absent t) (bit n) |>t
  | Stale | Failed => t <| failed := or (failed t) (bit n) |>t
  end.
Definition tally_close (t : tally) : tally := t <| failed := or (failed t) (pending t) |>t.
Definition tally_won (quorum : nat) (t : tally) : bool := (quorum <=? count (granted t))%nat.
Definition tally_hopeless (quorum : nat) (t : tally) : bool := (count (or (granted t) (pending t)) <? quorum)%nat.

(* ---- an attempt: rl_attempt ---- *)

(* rl_terms. No rates of clocks were measured. *)
Record terms := {
  nodes : nat; ttl : Z; drift_ppm : Z; drift_fixed : Z; node_timeout : Z; validity_min : Z;
}.
Definition quorum (k : terms) : nat := majority_of (nodes k).
Definition drift (k : terms) (span : Z) : Z := drift_of (drift_ppm k) (drift_fixed k) span.

Inductive outcome := No_outcome | Ok | Held | No_quorum | Expired | Lost | Cancelled | Limit.

Inductive attempt_state := Fresh | Voting | Won | Failed_.

Record attempt := {
  state : attempt_state;
  result : outcome;          (* when it has failed *)
  votes : tally;
  t1 : Z;                    (* when the SETs went out *)
  win_end : Z;               (* when it has won: t1 + ttl - drift *)
  (* actions *)
  acquire : mask; release : mask; ended : outcome; wake_at : option Z (* None: RL_NEVER *)
}.
Definition of_attempt (a : attempt) : attempt :=
  Build_attempt (state a) (result a) (votes a) (t1 a) (win_end a) (acquire a) (release a) (ended a) (wake_at a).
Notation "x <| f := v |>a" := (changed ltac:(with_field of_attempt f v) x)
  (at level 12, left associativity, f at next level, v at level 200, only parsing).

Definition fresh_attempt : attempt :=
  {| state := Fresh; result := No_outcome; votes := empty_tally; t1 := 0; win_end := 0;
     acquire := none; release := none; ended := No_outcome; wake_at := None |}.

Inductive attempt_event :=
| Start (ready : mask)
| Vote (n : nat) (v : answer)
| Cancel
| Tick.                      (* also RL_EVENT_NODES *)

Definition under_way (a : attempt) : bool := match state a with Voting => true | _ => false end.

Definition fail (why : outcome) (a : attempt) : attempt :=
  a <| result := why |>a <| state := Failed_ |>a <| release := asked (votes a) |>a <| ended := why |>a.

Definition majority (k : terms) (now : Z) (a : attempt) : attempt :=
  let validity_end := t1 a + ttl k - drift k (ttl k) in
  let left := validity_end - now in
  if (left <=? 0) || (left <? validity_min k) then fail Expired a
  else a <| win_end := validity_end |>a <| state := Won |>a <| ended := Ok |>a.

Definition count_votes (k : terms) (now : Z) (a : attempt) : attempt :=
  let enough_could_vote := (quorum k <=? nodes k - count (failed (votes a)))%nat in
  if tally_won (quorum k) (votes a) then majority k now a
  else if tally_hopeless (quorum k) (votes a) then fail (if enough_could_vote then Held else No_quorum) a
  else a.

Definition start (k : terms) (ready : mask) (now : Z) (a : attempt) : attempt :=
  let asks := tally_open (nodes k) ready in
  let a := a <| t1 := now |>a in
  if tally_hopeless (quorum k) asks then fail No_quorum (a <| votes := tally_open (nodes k) none |>a)
  else a <| votes := asks |>a <| state := Voting |>a <| acquire := asked asks |>a.

Definition cleared (a : attempt) : attempt :=
  a <| acquire := none |>a <| release := none |>a <| ended := No_outcome |>a <| wake_at := @None Z |>a.

(* What an event brings: the beginning, or a vote. *)
Definition record_event (k : terms) (e : attempt_event) (now : Z) (a : attempt) : attempt :=
  match e, state a with
  | Start ready, Fresh => start k ready now a
  | Vote _ _, Fresh => a
  | Vote n v, _ => if takes (nodes k) (votes a) n v then a <| votes := tally_vote (votes a) n v |>a else a
  | _, _ => a
  end.

(* What follows from it. A vote that waited in a socket is counted before a node counts as late. *)
Definition conclude (k : terms) (e : attempt_event) (now : Z) (a : attempt) : attempt :=
  let deadline := t1 a + node_timeout k in
  match e with
  | Cancel => fail Cancelled a
  | Vote _ _ => count_votes k now a
  | _ => count_votes k now (if deadline <=? now then a <| votes := tally_close (votes a) |>a else a)
  end.

Definition attempt_step (k : terms) (e : attempt_event) (now : Z) (a : attempt) : attempt :=
  let a := record_event k e now (cleared a) in
  if negb (under_way a) then a
  else let a := conclude k e now a in
       if under_way a then a <| wake_at := Some (t1 a + node_timeout k) |>a else a.
