(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode with readers: runs. A server loses its data and comes back while a reader holds; a reader
   writes back a fence; and for each rule of a reader's token what happens without it. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedExclusion GuardedRuns
  GuardedShared GuardedSharedExclusion GuardedReaders.
From Redlock Require Shared.
Import ListNotations.
Open Scope Z_scope.

(* The world of GuardedRuns.v, in which all rules are followed and clocks run. A and B write, C reads. *)
Definition C : attempt := 2%nat.
Definition reading_world : shared_system := {|
  core := world false None;
  begins_as := fun c => if (c <? 2)%nat then Shared.Writes else Shared.Reads;
  first_lists := fun _ _ => [];
|}.

Local Open Scope nat_scope.

(* C asks a body for a place, in the round that began then; the fence is raised to at least t. *)
Definition shares (b : body) (began : nat) (t : Z) : shared_event := Asks b Shared.Share C began second t.
Definition steps (l : list event) : list shared_event := map Of_core l.

(* ---- a server comes back while a reader holds ------------------------------------------------------ *)

(* C reads by all three members. Member 0 is lost, and body 3 takes its place. While that waits, C extends by
   the other two. Then body 3 gives B its key, and the others do not; when C has left, member 1 does, too. *)
Definition extends (b : body) (began : nat) : shared_event := Asks b Shared.Share_extend C began second 1%Z.
Definition reads_on : list shared_event :=
  steps [Begins C second] ++ [shares 0 0 1%Z; shares 1 0 1%Z; shares 2 0 1%Z; Reader_wins C [0; 1; 2] (validity 0)] ++
  steps [Dies 0; empty 3; Learns 1 0 1; Learns 2 0 1; Is_registered 3 [1; 2]] ++ steps (passes 20) ++
  [extends 1 30; extends 2 30; Of_core (Extended C 30 second [0; 1] (validity 30))] ++ steps (passes 28) ++
  steps [Reads 1; Reads 2; Installs 3 [0; 1] (one_wait 9 61)] ++
  steps [Begins B second; Sets 3 B 64 second; Raises 3 B 64 second 2%Z].
Definition leaves_at_last : list shared_event :=
  steps [Releases C] ++ [Leaves 1 C] ++
  steps [Sets 1 B 64 second; Raises 1 B 64 second 2%Z; Wins B 2%Z [0; 1] None (validity 64)].

Definition ends_inside (events : list shared_event) (c : attempt) : bool :=
  match shared_run reading_world (shared_initial reading_world) events with
  | Some s => inside (world false None) (of_core s) c
  | None => false
  end.
Definition happens_after (events : list shared_event) (e : shared_event) : bool :=
  match shared_run reading_world (shared_initial reading_world) events with
  | Some s => match shared_step reading_world s e with Some _ => true | None => false end
  | None => false
  end.

Example a_server_comes_back_to_readers :
  well_formed (core reading_world) /\ obeys (core reading_world) /\ clocks_run (core reading_world) /\
  ends_inside reads_on C = true /\
  happens_after reads_on (Of_core (Sets 1 B 64 second)) = false /\
  happens_after reads_on (Of_core (Sets 2 B 64 second)) = false /\
  ends_inside (reads_on ++ leaves_at_last) B = true.
Proof.
  split; [apply world_is_well_formed |]. split; [apply world_obeys |]. split; [apply world_clocks_run |].
  repeat split; vm_compute; reflexivity.
Qed.

(* ---- a reader's token ------------------------------------------------------------------------------ *)

Definition same_reader_rule (a b : reader_rule) : bool :=
  match a, b with Takes_the_highest, Takes_the_highest | Writes_back, Writes_back => true | _, _ => false end.
Definition all_but (dropped : reader_rule) : reader_rule -> bool := fun r => negb (same_reader_rule r dropped).

(* What C was granted, by observations of the log, newest first. *)
Definition reading_of (s : state) (asked granted : nat) (t : Z) (places : list nat) : reading := {|
  reader := C; shared_stripe := 0; shared_token := t; asked_at := asked; granted_at := granted; asked_ttl := second;
  counted := match pick (log s) places with Some l => l | None => [] end; confirmed_again := None |}.

Definition check_granted (y : system) (follows : reader_rule -> bool) (s : state) (r : reading) : bool :=
  is_view y (counted r) &&
  forallb (fun o => is_extension (reader r) (asked_at r) (asked_ttl r) o &&
    (asked_at r <=? moment o) && (moment o <? granted_at r) &&
    (negb (follows Takes_the_highest) || (after o (shared_stripe r) <=? shared_token r)%Z) &&
    (negb (follows Writes_back) || (shared_token r <=? after o (shared_stripe r))%Z)) (counted r) &&
  existsb (fun o => (after o (shared_stripe r) =? shared_token r)%Z) (counted r) &&
  (granted_at r <? moment_now s) && (asked_ttl r <=? ttl_max y)%Z &&
  (client_clock y (reader r) (time_at y (granted_at r)) <? validity_end y (reader r) (asked_at r) (asked_ttl r))%Z.

Lemma check_is_so : forall y follows s asked granted t places, obeys (core y) ->
  check_granted (core y) follows s (reading_of s asked granted t places) = true ->
  was_granted y follows s (reading_of s asked granted t places).
Proof.
  intros y follows s asked granted t places rules ok. unfold check_granted in ok.
  rewrite !andb_true_iff, forallb_forall in ok. destruct ok as (((((is_a_view & each) & reported) & past) & short) & valid).
  constructor; simpl confirmed_again; auto.
  - split; [now apply is_view_view |]. simpl. intros o o_in.
    destruct (pick (log s) places) as [l |] eqn:picks; [| contradiction]. eapply picked; eassumption.
  - intros o o_in. specialize (each o o_in). rewrite !andb_true_iff in each.
    destruct each as ((((mine & low) & high) & top) & back).
    apply Nat.leb_le in low. apply Nat.ltb_lt in high. split; [now apply is_extension_why |].
    split; [lia |]. split; intros follows_it; rewrite follows_it in *; simpl in *; now apply Z.leb_le.
  - apply existsb_exists in reported as (o & o_in & is). exists o. split; [assumption | now apply Z.eqb_eq].
  - now apply Nat.ltb_lt.
  - now apply Z.leb_le.
  - now apply Z.ltb_lt.
  - exact I.
Qed.

(* A client that was denied has raised the fence of member 0 to 5. C is told of 5 and of 1, and counts both.
   When it has left, the next writer gets 2. *)
Definition without_write_back : list shared_event :=
  steps [Bumps 0 0 5%Z; Begins C second] ++ [shares 0 1 1%Z; shares 1 1 1%Z; Reader_wins C [0; 1] (validity 1)] ++
  steps [Releases C] ++ [Leaves 1 C] ++ steps (b_wins 7 1 2 2%Z).

(* A wins with token 5 and releases. C takes the first fence that it is told of. *)
Definition without_the_highest : list shared_event :=
  steps (a_wins_first ++ [Releases A; Deletes 0 A; Begins C second]) ++
  [shares 2 8 1%Z; shares 0 8 1%Z; Reader_wins C [0; 1] (validity 8)].

(* The same, but C takes 5, and writes it back to member 2 before that counts. When it has left, B wins by
   members 1 and 2 with this token. *)
Definition reading_between (t : Z) : list shared_event :=
  steps (a_wins_first ++ [Releases A; Deletes 0 A; Begins C second]) ++
  [shares 2 8 1%Z; shares 0 8 1%Z; shares 2 8 5%Z; Reader_wins C [0; 1] (validity 8)] ++
  steps [Releases C] ++ [Leaves 2 C] ++ steps (Deletes 1 A :: b_wins 16 1 2 t).

Definition grant_is (c : attempt) (t : Z) (began won : nat) (g : grant) : bool :=
  (winner g =? c) && (fencing_token g =? t)%Z && (began_at g =? began) && (won_at g =? won).

(* After the run the reader was granted this, and the writer that. *)
Definition ends_so (follows : reader_rule -> bool) (events : list shared_event) (asked granted : nat) (t : Z)
  (places : list nat) (c : attempt) (t' : Z) (began won : nat) : bool :=
  match shared_run reading_world (shared_initial reading_world) events with
  | Some s => check_granted (world false None) follows (of_core s) (reading_of (of_core s) asked granted t places) &&
              existsb (grant_is c t' began won) (grants (of_core s))
  | None => false
  end.

Lemma ends_is_so : forall follows events asked granted t places c t' began won,
  ends_so follows events asked granted t places c t' began won = true ->
  exists s r g, shared_reachable reading_world s /\ was_granted reading_world follows (of_core s) r /\
    In g (grants (of_core s)) /\ shared_stripe r = stripe_for (core reading_world) (winner g) /\
    shared_token r = t /\ asked_at r = asked /\ granted_at r = granted /\
    fencing_token g = t' /\ began_at g = began /\ won_at g = won.
Proof.
  intros follows events asked granted t places c t' began won ends. unfold ends_so in ends.
  destruct (shared_run _ _ events) as [s |] eqn:ran; [| discriminate].
  apply andb_true_iff in ends as [read wrote]. apply existsb_exists in wrote as (g & g_in & is).
  unfold grant_is in is. rewrite !andb_true_iff in is. destruct is as (((_ & is_t) & is_b) & is_w).
  apply Z.eqb_eq in is_t. apply Nat.eqb_eq in is_b, is_w.
  exists s, (reading_of (of_core s) asked granted t places), g.
  split; [eapply run_reachable; [apply at_first | eassumption] |].
  split; [apply check_is_so; [apply world_obeys | assumption] |]. repeat split; assumption.
Qed.

Theorem each_reader_rule_is_needed : forall dropped, exists y,
  well_formed (core y) /\ obeys (core y) /\ clocks_run (core y) /\
  exists s r g, shared_reachable y s /\ was_granted y (all_but dropped) (of_core s) r /\ In g (grants (of_core s)) /\
  shared_stripe r = stripe_for (core y) (winner g) /\
  ((granted_at r < began_at g)%nat /\ (fencing_token g <= shared_token r)%Z \/
   (won_at g < asked_at r)%nat /\ (shared_token r < fencing_token g)%Z).
Proof.
  intros dropped. exists reading_world.
  split; [apply world_is_well_formed |]. split; [apply world_obeys |]. split; [apply world_clocks_run |].
  destruct dropped.
  - destruct (ends_is_so (all_but Takes_the_highest) without_the_highest 8 11 1%Z [0; 1] A 5%Z 0 5 ltac:(vm_compute; reflexivity))
      as (s & r & g & reached & read & wrote & same & t & at_ & gr & t' & be & wo).
    exists s, r, g. do 4 (split; [assumption |]). right. rewrite t, at_, t', wo. lia.
  - destruct (ends_is_so (all_but Writes_back) without_write_back 1 4 5%Z [2; 3] B 2%Z 7 12 ltac:(vm_compute; reflexivity))
      as (s & r & g & reached & read & wrote & same & t & at_ & gr & t' & be & wo).
    exists s, r, g. do 4 (split; [assumption |]). left. rewrite t, gr, t', be. lia.
Qed.

(* With both rules: B wins with 6, and cannot with the reader's token. *)
Example a_reader_writes_back :
  ends_so all_followed (reading_between 6) 8 12 5%Z [2; 3] B 6%Z 16 21 = true /\
  shared_run reading_world (shared_initial reading_world) (reading_between 5) = None.
Proof. split; vm_compute; reflexivity. Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

(* A step of Guarded.v is of the same kind as there. *)
Definition shared_kind (e : shared_event) : nat :=
  match e with
  | Asks _ _ _ _ _ _ => 0 | Leaves _ _ => 1 | Place_ends _ _ _ => 2 | Reader_wins _ _ _ => 3 | Downgrades _ => 4
  | Of_core e => 5 + kind e
  end.

(* B becomes a reader before its lock is broken. At moment 135 C begins to read, by body 3 and member 1; it leaves
   body 3, and its place at member 1 ends. *)
Definition all_and_readers : list shared_event :=
  steps recovers_and_extends ++ [Downgrades B] ++ steps breaks_and_ends ++
  steps [Begins C second] ++ [shares 3 135 1%Z; shares 1 135 1%Z; Reader_wins C [0; 1] (validity 135)] ++
  steps [Releases C] ++ [Leaves 3 C] ++ steps (passes 51) ++ [Place_ends 1 0 C].

(* With all rules, and clocks that run: those of Guarded.v, and those of readers. *)
Theorem every_step_occurs : exists y events s, well_formed (core y) /\ obeys (core y) /\ clocks_run (core y) /\
  shared_run y (shared_initial y) events = Some s /\ all_occur shared_kind (fun _ => false) events.
Proof.
  destruct (can_run_to (shared_step reading_world) (shared_initial reading_world) all_and_readers) as [s ran];
    [vm_compute; reflexivity |].
  exists reading_world, all_and_readers, s. split; [apply world_is_well_formed |]. split; [apply world_obeys |].
  split; [apply world_clocks_run |]. split; [assumption |].
  intros e _. apply occurs. destruct e as [e | | | | |]; [destruct e |..]; vm_compute; reflexivity.
Qed.
