(* SPDX-License-Identifier: BSD-2-Clause

   Membership changes: majorities of one list meet, and those of two consecutive lists. *)
Require Import Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership.
Import ListNotations.

Definition obeys (y : system) : Prop := forall r, drops y r = false.

Lemma unless_obeyed : forall y r b, obeys y -> unless y r b = b.
Proof. intros y r b ob. unfold unless. now rewrite (ob r). Qed.

(* ---- majorities meet, also those of consecutive lists ------------------------------------------ *)

Record majority (held l : list node) : Prop := {
  one_each : NoDup held;
  of_list : incl held l;
  many : majority_of (length l) <= length held;
}.

Lemma is_majority_majority : forall held l, is_majority held l = true -> majority held l.
Proof.
  intros held l m. unfold is_majority in m. rewrite !andb_true_iff, Nat.leb_le, forallb_forall in m.
  destruct m as [[one inside] enough]. constructor; [now apply all_differ_NoDup | | assumption].
  intros n n_in. apply among_in. auto.
Qed.

Lemma majorities_meet : forall l held held', majority held l -> majority held' l ->
  exists n, In n held /\ In n held'.
Proof.
  intros l held held' [one of_ enough] [one' of_' enough']. apply (share l); auto.
  unfold node in *. pose proof (majority_is_more_than_half (length l)). lia.
Qed.

(* One member is added, or one is removed, or all stay. *)
Inductive one_change (l : list node) : list node -> Prop :=
| One_added : forall n, ~ In n l -> one_change l (l ++ [n])
| One_removed : forall n, In n l -> one_change l (filter (fun m => negb (m =? n)) l)
| All_stay : one_change l l.

Lemma changed_is_one : forall y c l l', obeys y -> changed y c l = Some l' -> one_change l l'.
Proof.
  intros y c l l' ob is. unfold changed in is. destruct c as [n | n | | l'']; simpl in is.
  - destruct (among l n) eqn:there; [discriminate |]. inversion is; subst. apply One_added.
    rewrite <- among_in. congruence.
  - destruct (among l n && (1 <? length l)) eqn:there; [| discriminate]. apply andb_true_iff in there as [there _].
    inversion is; subst. apply One_removed. now apply among_in.
  - inversion is; subst. apply All_stay.
  - rewrite ob in is. discriminate.
Qed.

Lemma one_change_NoDup : forall l l', NoDup l -> one_change l l' -> NoDup l'.
Proof.
  intros l l' one [n no | n there |]; [| now apply NoDup_filter | assumption].
  apply NoDup_Add with (a := n) (l := l); [| split; assumption].
  clear. induction l as [| m l IH]; simpl; constructor. assumption.
Qed.

Lemma filter_one : forall n (l : list nat), NoDup l -> In n l -> length l = S (length (filter (fun m => negb (m =? n)) l)).
Proof.
  intros n l one. induction one as [| m l no one IH]; simpl; [contradiction |].
  destruct (Nat.eqb_spec m n) as [-> | other]; simpl.
  - intros _. f_equal. clear - no. induction l as [| m l IH]; simpl; [reflexivity |].
    destruct (Nat.eqb_spec m n) as [-> | other]; simpl in *; [tauto |]. f_equal. apply IH. tauto.
  - intros [? | there]; [congruence |]. f_equal. auto.
Qed.

Lemma consecutive_majorities_meet : forall l l' held held', NoDup l -> one_change l l' ->
  majority held l -> majority held' l' -> exists n, In n held /\ In n held'.
Proof.
  intros l l' held held' one change [one_h of_ enough] [one_h' of_' enough'].
  assert (sizes : forall n, n < majority_of n + majority_of (S n) - 1).
  { intros n. unfold majority_of. pose proof (Nat.div_mod n 2). pose proof (Nat.mod_upper_bound n 2).
    pose proof (Nat.div_mod (S n) 2). pose proof (Nat.mod_upper_bound (S n) 2). lia. }
  destruct change as [n no | n there |].
  - apply (share (l ++ [n])); auto.
    + intros m m_in. apply in_or_app. auto.
    + unfold node in *. rewrite app_length in *. simpl in *. specialize (sizes (length l)). rewrite Nat.add_1_r in *. lia.
  - apply (share l); auto.
    + intros m m_in. apply of_' in m_in. now apply filter_In in m_in.
    + unfold node in *. pose proof (filter_one n l one there) as less. rewrite less in enough |- *.
      specialize (sizes (length (filter (fun m => negb (m =? n)) l))). lia.
  - apply (majorities_meet l); constructor; auto.
Qed.
