(* SPDX-License-Identifier: BSD-2-Clause

   What all systems share: runs of steps, functions that change in one place, and lists that have a member in common. *)
Require Import Lia List Bool Arith.
Import ListNotations.

(* ---- runs -------------------------------------------------------------------------------------- *)

Section Runs.
Context {state event : Type}.
Variable initial : state.
Variable step : state -> event -> option state. (* None: this cannot happen now *)

Inductive reachable : state -> Prop :=
| at_first : reachable initial
| and_then : forall s e s', reachable s -> step s e = Some s' -> reachable s'.

(* t comes after s in the same run. *)
Inductive follows (s : state) : state -> Prop :=
| at_once : follows s s
| later : forall t e u, follows s t -> step t e = Some u -> follows s u.

Fixpoint run (s : state) (events : list event) : option state :=
  match events with
  | [] => Some s
  | e :: events => match step s e with Some s' => run s' events | None => None end
  end.

Lemma follows_reachable : forall s t, reachable s -> follows s t -> reachable t.
Proof. induction 2; eauto using and_then. Qed.

Lemma follows_further : forall s t u, follows s t -> follows t u -> follows s u.
Proof. induction 2; eauto using later. Qed.

Lemma run_follows : forall events s t, run s events = Some t -> follows s t.
Proof.
  induction events as [| e events IH]; cbn [run]; intros s t ran; [inversion ran; apply at_once |].
  destruct (step s e) as [s' |] eqn:happens; [| discriminate].
  apply follows_further with s'; [eapply later; [apply at_once | eassumption] | auto].
Qed.

Definition can_run (s : state) (events : list event) : bool := match run s events with Some _ => true | None => false end.

Lemma can_run_to : forall s events, can_run s events = true -> exists t, run s events = Some t.
Proof. intros s events can. unfold can_run in can. destruct (run s events); [eauto | discriminate]. Qed.

Lemma run_reachable : forall events s t, reachable s -> run s events = Some t -> reachable t.
Proof. eauto using follows_reachable, run_follows. Qed.

End Runs.

(* Events of each kind occur, but of those that cannot. `kind` numbers the constructors: a new one needs a number,
   and an event. *)
Definition all_occur {event : Type} (kind : event -> nat) (cannot : event -> bool) (events : list event) : Prop :=
  forall e, cannot e = false -> exists e', In e' events /\ kind e' = kind e.

Lemma occurs : forall event (kind : event -> nat) events e,
  existsb (fun e' => kind e' =? kind e) events = true -> exists e', In e' events /\ kind e' = kind e.
Proof. intros event kind events e found. apply existsb_exists in found as (e' & ? & same). apply Nat.eqb_eq in same. eauto. Qed.

Ltac all_occur := intros e can; apply occurs; destruct e; (discriminate can || (vm_compute; reflexivity)).

(* ---- a step that is possible under a condition ------------------------------------------------- *)

Definition when {A : Type} (b : bool) (a : A) : option A := if b then Some a else None.

Lemma when_some : forall A b (a a' : A), when b a = Some a' -> b = true /\ a' = a.
Proof. intros A [] a a' is; now inversion is. Qed.

(* Takes apart a step that happened: the cases in which it can, and what it checked. *)
Ltac take_apart happens :=
  repeat match type of happens with
  | match ?x with _ => _ end = Some _ => destruct x eqn:?; try discriminate happens
  | when _ _ = Some _ => apply when_some in happens as [? ->]
  | Some _ = Some _ => injection happens as <-
  end.

(* ---- a function that changes in one place ------------------------------------------------------ *)

Definition update {A : Type} (f : nat -> A) (i : nat) (a : A) : nat -> A := fun j => if j =? i then a else f j.
Arguments update : simpl never.

Lemma update_same : forall A (f : nat -> A) i a, update f i a i = a.
Proof. intros. unfold update. now rewrite Nat.eqb_refl. Qed.

Lemma update_other : forall A (f : nat -> A) i a j, j <> i -> update f i a j = f j.
Proof. intros. unfold update. destruct (Nat.eqb_spec j i); congruence. Qed.

(* ---- lists ------------------------------------------------------------------------------------- *)

Definition among (l : list nat) (n : nat) : bool := existsb (Nat.eqb n) l.

Fixpoint all_differ (l : list nat) : bool :=
  match l with [] => true | n :: l => negb (among l n) && all_differ l end.

Lemma among_in : forall l n, among l n = true <-> In n l.
Proof.
  intros l n. unfold among. rewrite existsb_exists. split.
  - intros (m & m_in & same). apply Nat.eqb_eq in same. now subst.
  - intros n_in. exists n. now rewrite Nat.eqb_refl.
Qed.

Lemma all_differ_NoDup : forall l, all_differ l = true <-> NoDup l.
Proof.
  induction l as [| n l IH]; simpl; [split; intros; constructor |].
  rewrite andb_true_iff, negb_true_iff, IH. split.
  - intros [no one]. constructor; [| assumption]. rewrite <- among_in. congruence.
  - intros one. inversion one as [| ? ? no one']; subst. split; [| assumption].
    rewrite <- among_in in no. destruct (among l n); congruence.
Qed.

(* Two selections from one list that together are longer than it share a member. *)
Lemma share : forall all held held' : list nat, NoDup held -> NoDup held' -> incl held all -> incl held' all ->
  length all < length held + length held' -> exists n, In n held /\ In n held'.
Proof.
  intros all held held' one one' of_all of_all' more.
  destruct (Exists_dec (fun n => In n held') held (fun n => in_dec Nat.eq_dec n held')) as [found | none].
  - apply Exists_exists in found. exact found.
  - exfalso. assert (both : NoDup (held ++ held')).
    { clear - one one' none. induction one as [| n l no one IH]; simpl; [assumption |].
      constructor.
      - rewrite in_app_iff. intros [? | ?]; [contradiction |]. apply none. now apply Exists_cons_hd.
      - apply IH. intros e. apply none. now apply Exists_cons_tl. }
    apply NoDup_incl_length with (l' := all) in both.
    + rewrite app_length in both. lia.
    + intros n. rewrite in_app_iff. intros [? | ?]; auto.
Qed.
