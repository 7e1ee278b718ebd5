(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: the fencing tokens of readers (docs/use/shared.md, "Fencing tokens").

   A reader raises no fence of its own. Its token is the highest fence that the nodes it counts on
   reported, and a node counts only when its fence is at least that high: where it was lower, the reader
   wrote it back.

   What a reader was granted can be read off the log of a run: it is a view of answers to its requests.
   That clients exclude each other is not used here: tokens are in order whether or not they do. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedShared GuardedSharedExclusion.
Import ListNotations.
Open Scope Z_scope.

(* The rules of src/core/attempt.c, recount_readers() and write_back(). *)
Inductive reader_rule :=
| Takes_the_highest  (* no node that counts reported a higher fence than the token *)
| Writes_back.       (* no node counts while its fence is lower than the token *)

(* A shared lock that was acquired. *)
Record reading := {
  reader : attempt;
  shared_stripe : stripe;
  shared_token : Z;
  asked_at : nat;                          (* the client read its clock for this round *)
  granted_at : nat;
  asked_ttl : Z;
  counted : list seen;                     (* the last answers of the nodes that count *)
  confirmed_again : option (list seen);    (* the confirm round, if it was asked for *)
}.

Section Readings.
Variable sharing : shared_system.
Let y := core sharing.
Notation view_of_log s := (view_of_log (members y) (member_of y) (rank_of y) (fun o => In o (log s))).

(* The reader was granted this in the run that led to s, a state of Guarded.v. *)
Record was_granted (follows : reader_rule -> bool) (s : state) (r : reading) : Prop := {
  counted_are_a_view : view_of_log s (counted r);
  counted_are_answers : forall o, In o (counted r) ->
    why o = Extends (reader r) (asked_at r) (asked_ttl r) /\ (asked_at r <= moment o < granted_at r)%nat /\
    (follows Takes_the_highest = true -> after o (shared_stripe r) <= shared_token r) /\
    (follows Writes_back = true -> shared_token r <= after o (shared_stripe r));
  token_was_reported : exists o, In o (counted r) /\ after o (shared_stripe r) = shared_token r;
  granted_before : (granted_at r < moment_now s)%nat;
  asked_within_ttl_max : asked_ttl r <= ttl_max y;
  granted_in_validity :
    client_clock y (reader r) (time_at y (granted_at r)) < validity_end y (reader r) (asked_at r) (asked_ttl r);
  (* The voters were asked once more, after the last answer that counts. *)
  confirmed_later : match confirmed_again r with
    | None => True
    | Some answers => view_of_log s answers /\
        forall o, In o answers -> (exists v, In v (counted r) /\ of_body v = of_body o) /\
          forall v, In v (counted r) -> (moment v < moment o)%nat
    end;
}.

Definition all_followed : reader_rule -> bool := fun _ => true.

(* As for a writer: a confirm round, or else clocks. *)
Definition is_sure_reading (r : reading) : Prop :=
  confirmed_again r <> None \/ (agent_clocks_run y /\ client_clocks_run y /\ wait_covers y).

Variable s : state.
Hypothesis h : history y s.

(* Each node that counts has exactly the reader's token. *)
Lemma counted_have_the_token : forall r o, was_granted all_followed s r -> In o (counted r) ->
  In o (log s) /\ after o (shared_stripe r) = shared_token r.
Proof.
  intros r o g o_in. destruct (counted_are_answers _ _ _ g o o_in) as (_ & _ & low & high).
  specialize (low eq_refl). specialize (high eq_refl).
  split; [now apply (counted_are_a_view _ _ _ g) | lia].
Qed.

Definition proof_of_reading (r : reading) : list seen :=
  match confirmed_again r with Some answers => answers | None => counted r end.

(* So a reading is a proposal that is complete: with the last answer, or with the grant. *)
Hypothesis well : well_formed y.

Lemma reading_is_complete : forall r, was_granted all_followed s r -> is_sure_reading r ->
  exists k, complete (members y) (member_of y) (rank_of y) (fun o => In o (log s)) (birth_of s) (shared_stripe r)
    (shared_token r) k (proof_of_reading r) /\ (k <= granted_at r)%nat.
Proof.
  intros r g sure. pose proof (is_lawful y s h) as law.
  destruct (view_has_one y _ (proj1 (counted_are_a_view _ _ _ g))) as (v0 & v0_in).
  destruct (counted_are_answers _ _ _ g v0 v0_in) as (_ & v0_between & _).
  destruct (latest_is (counted r)) as [below above].
  pose proof (confirmed_later _ _ _ g) as confirmed. unfold proof_of_reading.
  destruct (confirmed_again r) as [answers |] eqn:is_confirmed.
  - exists (latest (counted r)). split.
    + constructor.
      * apply confirmed.
      * intros u u_in. destruct (proj2 confirmed u u_in) as [(a & a_in & same) _]. exists a.
        destruct (counted_have_the_token r a g a_in). repeat split; auto.
      * intros u b i u_in born newer o o_in.
        destruct (view_is_older _ _ _ _ _ law b i answers u born (proj1 confirmed) u_in newer) as (p & p_in & older).
        destruct (proj2 confirmed p p_in) as [_ later].
        pose proof (later v0 v0_in). specialize (above (moment p) ltac:(lia) later).
        destruct (GuardedHistory.reading _ _ _ _ _ law b i born) as [_ each]. destruct (each o o_in). lia.
    + assert (latest (counted r) < granted_at r)%nat; [| lia]. apply above; [lia |].
      intros o o_in. now destruct (counted_are_answers _ _ _ g o o_in) as (_ & [_ ?] & _).
  - exists (granted_at r). split; [| lia].
    destruct sure as [? | (agents & clients & covers)]; [congruence |]. constructor.
    + apply (counted_are_a_view _ _ _ g).
    + intros u u_in. exists u. destruct (counted_have_the_token r u g u_in).
      destruct (counted_are_answers _ _ _ g u u_in) as (_ & ? & _). repeat split; auto. lia.
    + intros u b i u_in born newer o o_in.
      destruct (view_is_older _ _ _ _ _ law b i (counted r) u born (counted_are_a_view _ _ _ g) u_in newer)
        as (p & p_in & older).
      destruct (le_lt_dec (moment o) (granted_at r)) as [early |]; [| assumption]. exfalso.
      destruct (counted_are_answers _ _ _ g p p_in) as (_ & between & _).
      destruct (births y s h b i born) as (_ & _ & _ & wait & _).
      pose proof (outlived y well (reader r) (asked_at r) (asked_ttl r) i (granted_at r) agents clients covers wait
        ltac:(lia) (asked_within_ttl_max _ _ _ g) ltac:(eauto)).
      pose proof (granted_in_validity _ _ _ g). lia.
Qed.

(* What a later reader counts has at least the token of a proposal that was complete before it asked. *)
Lemma reader_finds : forall r t k proof, was_granted all_followed s r ->
  complete (members y) (member_of y) (rank_of y) (fun o => In o (log s)) (birth_of s) (shared_stripe r) t k proof ->
  (k < asked_at r)%nat -> t <= shared_token r.
Proof.
  intros r t k proof g done later. pose proof (is_lawful y s h) as law.
  destruct (fence_is_found _ _ _ _ _ law _ _ _ _ (counted r) done (counted_are_a_view _ _ _ g)) as (o & o_in & found).
  - intros o o_in. destruct (counted_are_answers _ _ _ g o o_in) as (_ & [? _] & _). lia.
  - destruct (counted_have_the_token r o g o_in) as [o_log is].
    pose proof (never_lowers _ _ _ _ _ law o (shared_stripe r) o_log). lia.
Qed.

End Readings.

(* ---- the theorems ------------------------------------------------------------------------------- *)

(* A writer that began after a reader was granted has a higher token. *)
Theorem writer_after_reader : forall y, well_formed (core y) -> obeys (core y) ->
  forall s, shared_reachable y s ->
  forall r g, was_granted y all_followed (of_core s) r -> In g (grants (of_core s)) ->
  is_sure_reading y r -> shared_stripe r = stripe_for (core y) (winner g) ->
  (granted_at r < began_at g)%nat -> shared_token r < fencing_token g.
Proof.
  intros y well rules s reached r g granted g_in sure same later.
  destruct (known_reachable y well rules s reached) as [h sa _].
  destruct (reading_is_complete y (of_core s) h well r granted sure) as (k & done & by_grant).
  pose proof (all_won (core y) (of_core s) sa g g_in) as w.
  eapply (later_is_higher _ _ _ _ _ (is_lawful (core y) (of_core s) h)); [exact done | apply (votes_are_a_view _ _ g w) |].
  intros a a_in. destruct (votes_are_for_it _ _ g w a a_in) as [is _].
  pose proof (all_said _ _ sa a (proj2 (votes_are_a_view _ _ g w) a a_in)) as says.
  unfold said in says. rewrite is in says. rewrite same. destruct says. split; [assumption | lia].
Qed.

(* A reader that asked after a writer was granted has at least the writer's token. *)
Theorem reader_after_writer : forall y, well_formed (core y) -> obeys (core y) ->
  forall s, shared_reachable y s ->
  forall g r, In g (grants (of_core s)) -> was_granted y all_followed (of_core s) r ->
  is_sure (core y) g -> stripe_for (core y) (winner g) = shared_stripe r ->
  (won_at g < asked_at r)%nat -> fencing_token g <= shared_token r.
Proof.
  intros y well rules s reached g r g_in granted sure same later.
  destruct (known_reachable y well rules s reached) as [h sa _].
  destruct (grant_is_complete (core y) well (of_core s) g h sa g_in sure) as (k & done & by_win). rewrite same in done.
  eapply (reader_finds y (of_core s) h r); eauto. lia.
Qed.

(* And of two readers, the one that asked when the other had been granted has at least its token. *)
Theorem reader_after_reader : forall y, well_formed (core y) -> obeys (core y) ->
  forall s, shared_reachable y s ->
  forall q r, was_granted y all_followed (of_core s) q -> was_granted y all_followed (of_core s) r ->
  is_sure_reading y q -> shared_stripe q = shared_stripe r ->
  (granted_at q < asked_at r)%nat -> shared_token q <= shared_token r.
Proof.
  intros y well rules s reached q r granted_q granted_r sure same later.
  destruct (known_reachable y well rules s reached) as [h _ _].
  destruct (reading_is_complete y (of_core s) h well q granted_q sure) as (k & done & by_grant). rewrite same in done.
  eapply (reader_finds y (of_core s) h r); eauto. lia.
Qed.
