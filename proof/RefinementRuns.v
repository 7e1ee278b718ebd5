(* SPDX-License-Identifier: BSD-2-Clause

   The theorems of Refinement.v do not hold merely because nothing can happen: a run of the code in which a client wins
   a lock and holds it, in a system that satisfies all assumptions. *)
Require Import ZArith NArith List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic ClassicNeeds Attempt Lease Refinement.
Import ListNotations.
Open Scope Z_scope.

Definition settings_of (c : Classic.attempt) : terms :=
  {| nodes := 3; ttl := second; drift_ppm := ppm_default; drift_fixed := fixed_default; node_timeout := 50 * ms;
     validity_min := 0 |}.
Definition limits_of (c : Classic.attempt) : rules :=
  {| renew_every := 300 * ms; hold_max := 0; renewals_max := 0; lost_margin := 5 * ms |}.

Lemma fits : has_settings (without None) settings_of limits_of.
Proof. constructor; try reflexivity; intros; vm_compute; try split; congruence. Qed.

Definition asked_for : request := set_of A 0 second.
Definition owing (l : list nat) : nat -> option request := fun n => if existsb (Nat.eqb n) l then Some asked_for else None.

Definition arrives (w : world) (n : node) : world :=
  match step (without None) (around w) (Arrives n n asked_for) with
  | Some s => {| around := s; machine_of := machine_of w; owes := owes w |}
  | None => w
  end.
Definition tries_on (w : world) (e : attempt_event) (l : list nat) : world :=
  match machine_of w A with
  | Tries a => let a := attempt_step (settings_of A) e 0 a in
      sends w A (Tries a) (attempt_requests settings_of A 0 a) (release a) (owing l)
  | Leased _ => w
  end.

Definition voting : world := arrives (arrives (tries_on resting (Start 7%N) [0; 1; 2]%nat) 0%nat) 1%nat.
Definition won_world : world := tries_on (tries_on voting (Vote 0 Granted) [1; 2]%nat) (Vote 1 Granted) [2]%nat.
Definition winner : attempt := match machine_of won_world A with Tries a => a | Leased _ => fresh_attempt end.
Definition begins : lease_event :=
  {| what := Starts (win_end winner) (asked (Attempt.votes winner)) (granted (Attempt.votes winner))
       (denied (Attempt.votes winner));
     ready := 3%N; busy := 4%N; full := false |}.
Definition holder : lease := lease_step (settings_of A) (limits_of A) begins 0 fresh_lease.
Definition holding : world :=
  sends won_world A (Leased holder) (lease_requests A 0 holder) (unlock holder) (owing [2]%nat).

Notation reached := (code_reaches (without None) settings_of limits_of).

Lemma arrives_reached : forall w n, reached w -> reached (arrives w n).
Proof.
  intros w n is. unfold arrives. destruct (step _ _ _) eqn:happens; [| exact is].
  eapply code_moves; [exact is | apply (outside _ _ _ w (Arrives n n asked_for)); [exact I | exact happens]].
Qed.

Lemma tries_reached : forall w e l, reached w -> now (around w) = 0 -> attempt_may (without None) w A e ->
  (forall n, owing l n = owes w A n \/ owing l n = None \/ (owes w A n = None /\
    match machine_of w A with
    | Tries a => has (acquire (attempt_step (settings_of A) e 0 a)) n = true /\ owing l n = Some asked_for
    | Leased _ => False
    end)) -> reached (tries_on w e l).
Proof.
  intros w e l is at_0 may owed. unfold tries_on. destruct (machine_of w A) as [a |] eqn:at_A; [| exact is].
  eapply code_moves; [exact is |].
  pose (o := fun n => match owing l n, owes w A n with None, _ => None | _, q => q end).
  pose proof (tries (without None) settings_of limits_of w A a e o (owing l) at_A may) as move.
  unfold reads in move. rewrite at_0 in move. apply move.
  - intros n. unfold o. destruct (owing l n); auto.
  - intros n. unfold o. destruct (owed n) as [<- | [-> | (nothing & asked_ & ->)]]; [left; now destruct (owing l n) | now left |].
    right. rewrite nothing. split; [reflexivity |]. eexists. eexists. split; [left; reflexivity | now split].
Qed.

Lemma voting_reached : reached voting.
Proof.
  apply arrives_reached, arrives_reached, tries_reached; [constructor | reflexivity | exact I |].
  intros n. right. destruct n as [| [| [| n]]]; [right | right | right | left]; vm_compute; auto.
Qed.

Lemma won_reached : reached won_world.
Proof.
  unfold won_world. apply tries_reached; [apply tries_reached; [apply voting_reached | reflexivity | |] | reflexivity | |].
  - intros _. exists asked_for. vm_compute. auto.
  - intros n. destruct n as [| [| [| n]]]; vm_compute; auto.
  - intros _. exists asked_for. vm_compute. auto.
  - intros n. destruct n as [| [| [| n]]]; vm_compute; auto.
Qed.

(* A client wins the lock and then holds it. *)
Lemma code_can_hold : reached holding /\ answers_held (without None) holding A = true.
Proof.
  split; [| vm_compute; reflexivity]. eapply code_moves; [apply won_reached |].
  apply (begins_lease (without None) settings_of limits_of won_world A winner begins (owing [2]%nat) (owing [2]%nat));
    try (vm_compute; reflexivity).
  - intros n. destruct n as [| [| [| n]]]; vm_compute; auto.
  - intros n. destruct n as [| [| [| n]]]; vm_compute; congruence.
  - intros n. now left.
Qed.
