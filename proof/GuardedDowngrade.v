(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode with readers: a lost lock stays lost, and a writer that becomes a reader leaves no gap for
   another writer. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedExclusion GuardedShared
  GuardedSharedExclusion.
From Redlock Require Shared.
Import ListNotations.
Open Scope Z_scope.

Definition clients_go_forward (y : system) : Prop := forall c t t', t <= t' -> client_clock y c t <= client_clock y c t'.

Definition has_won (t : state) (c : attempt) : Prop := (exists until, phase_of t c = Holding until) \/ phase_of t c = Over.

(* A client that holds, or held, holds later only until the same end or an earlier one, unless it was inside. *)
Definition phase_goes_on (y : system) (t u : state) (c : attempt) : Prop :=
  has_won t c -> has_won u c /\ forall until, phase_of u c = Holding until ->
    exists old, phase_of t c = Holding old /\ (until <= old \/ client_clock y c (now y t) < old).

Lemma core_phase_goes_on : forall y t e u c, act y t e = Some u -> phase_goes_on y t u c.
Proof.
  intros y t e u c acts.
  assert (same : forall v, phase_of v = phase_of t -> phase_goes_on y t v c).
  { intros v is won. unfold has_won in *. rewrite is. split; [assumption |]. intros u0 held. exists u0. split; [assumption | lia]. }
  assert (one : forall v d p, phase_of v = update (phase_of t) d p ->
    (has_won t d -> (exists until, p = Holding until) \/ p = Over) ->
    (forall until, has_won t d -> p = Holding until ->
      exists old, phase_of t d = Holding old /\ (until <= old \/ client_clock y d (now y t) < old)) ->
    phase_goes_on y t v c).
  { intros v d p is wins ends_ won. unfold has_won. rewrite is. destruct (Nat.eq_dec c d) as [-> |].
    - rewrite update_same. split; [auto |]. intros u0 same_p. now apply ends_.
    - rewrite update_other by assumption. split; [exact won |]. intros u0 held. exists u0. split; [assumption | lia]. }
  assert (never : forall d, phase_of t d = Idle \/ (exists began ttl, phase_of t d = Trying began ttl) -> has_won t d -> False).
  { intros d [idle | (began & ttl & trying)] [[until held] | over]; congruence. }
  destruct e; simpl in acts;
    repeat match type of acts with
    | (match ?m with _ => _ end) = Some _ => destruct m eqn:?; try discriminate
    end;
    try (apply when_some in acts as [ok ->]); try (inversion acts; subst; clear acts);
    try (now apply same).
  - (* Begins *) eapply one; [reflexivity | intros w | intros u0 w]; exfalso; eapply (never c0); eauto.
  - (* Wins *) eapply one; [reflexivity | intros w | intros u0 w]; exfalso; eapply (never c0); eauto.
  - eapply one; [reflexivity | intros w | intros u0 w]; exfalso; eapply (never c0); eauto.
  - (* Extended *)
    eapply one; [reflexivity | intros _; left; eauto |]. intros u0 _ same_p. inversion same_p; subst.
    rewrite !andb_true_iff in ok. destruct ok as ((_ & valid) & _). apply Z.ltb_lt in valid. eauto.
  - (* Cuts *)
    apply Z.leb_le in ok. eapply one; [reflexivity | intros _; left; eauto |]. intros u0 _ same_p.
    inversion same_p; subst. eauto.
  - (* Releases *) eapply one; [reflexivity | auto | discriminate].
Qed.

Lemma step_goes_on : forall y s e s' c, shared_step y s e = Some s' -> phase_goes_on (core y) (of_core s) (of_core s') c.
Proof.
  intros y s e s' c happens. unfold shared_step in happens.
  destruct (shared_act y s e) as [u |] eqn:acts; [| discriminate]. inversion happens; subst; clear happens.
  assert (same : phase_of (of_core u) = phase_of (of_core s) -> phase_goes_on (core y) (of_core s) (next (of_core u)) c).
  { intros is won. unfold has_won in *. simpl. rewrite is. split; [assumption |]. intros u0 held. exists u0.
    split; [assumption | lia]. }
  simpl. destruct e; cbn [shared_act] in acts.
  - destruct (core_may y e); [| discriminate]. destruct (act (core y) (of_core s) e) as [t' |] eqn:core_acts; [| discriminate].
    inversion acts; subst. exact (core_phase_goes_on (core y) (of_core s) e t' c core_acts).
  - destruct (grants_to_reader _ _ _ _ _ _); [| discriminate].
    destruct (_ && _ && _ && _); inversion acts; subst. now apply same.
  - destruct (Shared.serve _ _ _ _). destruct (phase_of (of_core s) c0); try discriminate.
    destruct (_ && _); inversion acts; subst. now apply same.
  - destruct (Shared.place_of _ _); [| discriminate]. destruct (_ && _); inversion acts; subst. now apply same.
  - destruct (phase_of (of_core s) c0) as [| began ttl | |] eqn:at_0; try discriminate.
    destruct (pick _ _); [| discriminate]. destruct (_ && _); inversion acts; subst.
    intros won. unfold has_won in *. simpl. destruct (Nat.eq_dec c c0) as [-> |].
    + destruct won as [[until' held] | over]; congruence.
    + rewrite update_other by assumption. split; [assumption |]. intros u0 held. exists u0. split; [assumption | lia].
  - destruct (phase_of (of_core s) c0); inversion acts; subst. now apply same.
Qed.

Lemma moment_goes_on : forall y s e s', shared_step y s e = Some s' -> (moment_now (of_core s) <= moment_now (of_core s'))%nat.
Proof.
  intros y s e s' happens. unfold shared_step in happens.
  destruct (shared_act y s e) as [u |] eqn:acts; [| discriminate]. inversion happens; subst; clear happens.
  assert (moment_now (of_core u) = moment_now (of_core s)); [| simpl; lia].
  destruct e; cbn [shared_act] in acts;
    repeat match type of acts with
    | (match ?m with _ => _ end) = Some _ => destruct m eqn:?; try discriminate
    end; inversion acts; subst; try reflexivity.
  match goal with core_acts : act _ _ ?e = Some _ |- _ => destruct e; simpl in core_acts;
    repeat match type of core_acts with
    | (match ?m with _ => _ end) = Some _ => destruct m eqn:?; try discriminate
    end; try (apply when_some in core_acts as [ok ->]); try (inversion core_acts; subst); reflexivity end.
Qed.

Lemma after_shared_run : forall y s t c, well_formed (core y) -> clients_go_forward (core y) -> shared_follows y s t ->
  has_won (of_core s) c -> has_won (of_core t) c /\
  (inside (core y) (of_core s) c = false -> inside (core y) (of_core t) c = false).
Proof.
  intros y s t c well forward run won. induction run as [| t e u run [won' outside] happens]; [now split |].
  destruct (step_goes_on y t e u c happens won') as [won'' ends_]. split; [assumption |].
  intros out. specialize (outside out). unfold inside in *.
  destruct (phase_of (of_core u) c) as [| | until |] eqn:at_c; try reflexivity.
  destruct (ends_ until eq_refl) as (old & held & which). rewrite held in outside. rewrite Z.ltb_ge in *.
  pose proof (time_goes_forward (core y) well _ _ (moment_goes_on y t e u happens)).
  pose proof (forward c (now (core y) (of_core t)) (now (core y) (of_core u)) ltac:(unfold now; lia)).
  destruct which; lia.
Qed.

(* ---- the theorem --------------------------------------------------------------------------------- *)

(* If c has the lock at two moments, as a writer or as a reader, then no other client had it as a writer
   between them. *)
Theorem guarded_no_writer_between : forall y, well_formed (core y) -> obeys (core y) -> clocks_run (core y) ->
  clients_go_forward (core y) ->
  forall s t u c d x, shared_reachable y s -> shared_follows y s t -> shared_follows y t u ->
  has_lock (core y) (of_core s) c x -> has_lock (core y) (of_core u) c x ->
  has_lock (core y) (of_core t) d x -> writes y t d = true -> d = c.
Proof.
  intros y well rules clocks forward s t u c d x reached to_t to_u [at_first home] [at_last _] between w.
  assert (won : has_won (of_core s) c).
  { unfold inside in at_first. left. destruct (phase_of (of_core s) c); try discriminate. eauto. }
  destruct (after_shared_run y s t c well forward to_t won) as [won_t _].
  destruct (after_shared_run y t u c well forward to_u won_t) as [_ lost].
  assert (valid : inside (core y) (of_core t) c = true).
  { destruct (inside (core y) (of_core t) c); [reflexivity |]. rewrite lost in at_last by reflexivity. discriminate. }
  apply (guarded_shared_exclusion y well rules clocks t) with x; eauto using follows_reachable. now split.
Qed.
