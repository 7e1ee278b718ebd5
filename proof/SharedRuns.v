(* SPDX-License-Identifier: BSD-2-Clause

   Shared locks: runs. A run in which all rules are followed, a writer becomes a reader, and readers come
   and go; any number of readers hold together; and for each rule a run in which only this rule is not
   followed, and a writer holds together with somebody else. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic ClassicNeeds Shared.
Import ListNotations.
Open Scope Z_scope.

(* Three servers, clocks that are right, and the settings of the library, as in ClassicNeeds.v. A and B
   write; C, D and all others read. *)
Definition D : attempt := 3%nat.

Definition drops (dropped : option rule) (r : rule) : bool :=
  match dropped with
  | Some d => match d, r with
              | Writer_respects_marker, Writer_respects_marker | Reader_respects_writer, Reader_respects_writer
              | Key_outlives_readers, Key_outlives_readers | Leaver_spares_others, Leaver_spares_others
              | Extend_needs_place, Extend_needs_place | Downgrade_compares, Downgrade_compares
              | Downgrade_is_final, Downgrade_is_final | Readers_need_majority, Readers_need_majority => true
              | _, _ => false
              end
  | None => false
  end.

Definition but (dropped : option rule) : system := {|
  base := without None;
  begins_as := fun c => if (c <? 2)%nat then Writes else Reads;
  writer_respects_marker := negb (drops dropped Writer_respects_marker);
  reader_respects_writer := negb (drops dropped Reader_respects_writer);
  key_outlives_readers := negb (drops dropped Key_outlives_readers);
  leaver_spares_others := negb (drops dropped Leaver_spares_others);
  extend_needs_place := negb (drops dropped Extend_needs_place);
  downgrade_compares := negb (drops dropped Downgrade_compares);
  downgrade_is_final := negb (drops dropped Downgrade_is_final);
  readers_need_majority := negb (drops dropped Readers_need_majority);
|}.

Definition at_node (n : node) (r : request) : event := Arrives n n r.

(* A writer, and a reader, that begins at t, is granted by two nodes, and has the lock. *)
Definition writes (c : attempt) (t : time) (n m : node) : list event :=
  [Begins c second; at_node n (ask Set_ c t second); at_node m (ask Set_ c t second); Wins c (t + validity)].
Definition reads_ (c : attempt) (t : time) (n m : node) : list event :=
  [Begins c second; at_node n (ask Share c t second); at_node m (ask Share c t second); Wins c (t + validity)].

(* Each story ends with a writer inside validity, and another client too. *)
Definition story (dropped : rule) : list event :=
  match dropped with
  | Writer_respects_marker => reads_ C 0 node_0 node_1 ++ writes A 0 node_0 node_2
  | Reader_respects_writer => writes A 0 node_0 node_1 ++ reads_ C 0 node_0 node_2
  | Key_outlives_readers => (* D asks for 10 ms, and the key ends with D *)
      reads_ C 0 node_0 node_1 ++
      [Begins D (10 * ms); at_node node_0 (ask Share D 0 (10 * ms)); Time_passes (10 * ms); Ends node_0] ++
      writes A (10 * ms) node_0 node_2
  | Leaver_spares_others =>
      reads_ C 0 node_0 node_1 ++
      [Begins D second; at_node node_0 (ask Share D 0 second); Releases D; at_node node_0 (ask Share_release D 0 0)] ++
      writes A 0 node_0 node_2
  | Extend_needs_place => (* node 2 extends C, which has no place there. Then D leaves, and so does the key *)
      let t := 500 * ms in
      reads_ C 0 node_0 node_1 ++
      [Begins D second; at_node node_2 (ask Share D 0 second);
       Time_passes t; Begins_extension C second;
       at_node node_1 (ask Share_extend C t second); at_node node_2 (ask Share_extend C t second);
       Extended C t second (t + validity);
       Releases D; at_node node_2 (ask Share_release D t 0); Time_passes t; Ends node_0] ++
      writes A second node_0 node_2
  | Downgrade_compares => (* B's request to become a reader comes late, when A has the key *)
      writes B 0 node_0 node_1 ++
      [Downgrades B second; Releases B; at_node node_0 (ask Delete B 0 0); at_node node_1 (ask Delete B 0 0)] ++
      writes A 0 node_0 node_1 ++ [at_node node_0 (ask Share_extend B 0 second)] ++ reads_ C 0 node_0 node_2
  | Downgrade_is_final => (* no answer comes back, and A goes on writing *)
      writes A 0 node_0 node_1 ++
      [Downgrades A second; at_node node_0 (ask Share_extend A 0 second)] ++ reads_ C 0 node_0 node_2
  | Readers_need_majority =>
      writes A 0 node_0 node_1 ++ [Begins C second; at_node node_2 (ask Share C 0 second); Wins C validity]
  end.

(* ---- running them ------------------------------------------------------------------------------ *)

Definition holds_b (y : system) (s : state) (c : attempt) (m : mode) : bool :=
  match phase_of s c with
  | Holding m' until => eqb (reads m) (reads m') && (client_clock (base y) c (now s) <? until)
  | _ => false
  end.

Lemma holds_is_so : forall y s c m, holds_b y s c m = true -> has_lock y s c m.
Proof.
  intros y s c m is. unfold holds_b, has_lock in *. destruct (phase_of s c) as [| | m' until |]; try discriminate.
  apply andb_true_iff in is as [same valid]. exists until. split; [| lia]. f_equal. destruct m, m'; auto; discriminate.
Qed.

Definition ends_with (y : system) (events : list event) (holders : list (attempt * mode)) : bool :=
  match run y initial events with
  | Some s => forallb (fun h => holds_b y s (fst h) (snd h)) holders
  | None => false
  end.

Lemma every_story_ends_with_two : forall r, ends_with (but (Some r)) (story r) [(A, Writes); (C, Reads)] = true.
Proof. destruct r; vm_compute; reflexivity. Qed.

Lemma others_are_obeyed : forall r r', r' <> r -> obeys (but (Some r)) r' = true.
Proof. intros r r' other. destruct r, r'; try congruence; reflexivity. Qed.

Lemma all_are_obeyed : forall r, obeys (but None) r = true.
Proof. now intros []. Qed.

Theorem each_sharing_rule_is_needed : forall r, exists y,
  assumed_for_locks y /\ (forall r', r' <> r -> obeys y r' = true) /\
  exists s c d, reachable y s /\ c <> d /\ has_lock y s c Writes /\ has_lock y s d Reads.
Proof.
  intros r. exists (but (Some r)). split; [exact all_hold |]. split; [apply others_are_obeyed |].
  pose proof (every_story_ends_with_two r) as ends. unfold ends_with in ends.
  destruct (run (but (Some r)) initial (story r)) as [s |] eqn:ran; [| discriminate].
  rewrite forallb_forall in ends.
  exists s, A, C. split; [eapply run_reachable; [apply at_first | eassumption] |]. split; [discriminate |].
  split; apply holds_is_so; [apply (ends (A, Writes)) | apply (ends (C, Reads))]; simpl; auto.
Qed.

(* ---- with all rules ---------------------------------------------------------------------------- *)

(* A writes, and repairs its key at node 2. It becomes a reader on two nodes, C joins it there, and B
   cannot write. *)
Definition becoming_a_reader : list event :=
  let t := 600 * ms in
  writes A 0 node_0 node_1 ++
  [Repairs A second; at_node node_2 (ask Set_ A 0 second); Time_passes t; Downgrades A second;
   at_node node_0 (ask Share_extend A t second); at_node node_1 (ask Share_extend A t second);
   Extended A t second (t + validity)] ++
  reads_ C t node_0 node_1 ++
  [Begins B second; at_node node_0 (ask Set_ B t second); at_node node_1 (ask Set_ B t second)].

(* When its first TTL is over, A reads on. Node 2 learns late that A reads. A leaves, and C is the last. *)
Definition leaving : list event :=
  let t := 1200 * ms in
  [Time_passes (600 * ms); at_node node_2 (ask Share_extend A (600 * ms) second)].
Definition last_reader : list event :=
  let t := 1200 * ms in
  [Releases A; at_node node_0 (ask Share_release A t 0); at_node node_1 (ask Share_release A t 0);
   at_node node_2 (ask Share_release A t 0); at_node node_0 (ask Set_ B (600 * ms) second)].
Definition writing_again : list event :=
  let t := 1200 * ms in
  [Releases C; at_node node_0 (ask Share_release C t 0); at_node node_1 (ask Share_release C t 0);
   at_node node_0 (ask Set_ B (600 * ms) second); at_node node_1 (ask Set_ B (600 * ms) second);
   Wins B (600 * ms + validity)].

Definition denied_at (y : system) (events : list event) (c : attempt) : bool :=
  match run y initial events with
  | Some s => negb (existsb (fun v => (by_ (answered v) =? c)%nat) (votes s))
  | None => false
  end.

Example writers_and_readers_take_turns :
  assumed_for_locks (but None) /\ (forall r, obeys (but None) r = true) /\
  let before := becoming_a_reader ++ leaving in
  ends_with (but None) before [(A, Reads); (C, Reads)] = true /\
  ends_with (but None) (before ++ last_reader) [(C, Reads)] = true /\
  denied_at (but None) (before ++ last_reader) B = true /\
  ends_with (but None) (before ++ last_reader ++ writing_again) [(B, Writes)] = true.
Proof.
  split; [exact all_hold |]. split; [apply all_are_obeyed |].
  repeat split; vm_compute; reflexivity.
Qed.

(* ---- any number of readers ----------------------------------------------------------------------- *)

(* All that joined at the beginning have one end, and so has the key. *)
Definition ready (h : shelf) : Prop :=
  held h = None \/ (held h = Some (Marker second) /\ last_end (places h) = Some second /\
                    forall p, In p (places h) -> snd p = second).

Lemma another_joins : forall c h, ready h ->
  exists h', share (but None) 0 (ask Share c 0 second) h = (h', true) /\ ready h'.
Proof.
  intros c h is_ready. unfold share. simpl by_. simpl ttl.
  assert (joined : held h = Some (Marker second) -> (forall p, In p (places h) -> snd p = second) ->
    let l := living 0 (put c second (places h)) in
    ready {| held := Some (Marker (key_end (but None) second second l)); places := l |}).
  { intros at_h all l. assert (all' : forall p, In p l -> snd p = second).
    { intros p p_in. apply filter_In in p_in as [[<- | p_in] _]; [reflexivity |].
      apply filter_In in p_in as [p_in _]. auto. }
    assert (last : last_end l = Some second).
    { assert (some : forall l', (forall p : attempt * time, In p l' -> snd p = second) -> l' <> [] -> last_end l' = Some second).
      { induction l' as [| p l' IH]; intros all_l none; [congruence |]. simpl.
        rewrite (all_l p (or_introl eq_refl)). destruct l' as [| q l'']; [reflexivity |].
        rewrite IH; [now rewrite Z.max_id | intros; apply all_l; now right | discriminate]. }
      apply some; [assumption |]. unfold l, living, put. simpl. discriminate. }
    assert (key_ends : key_end (but None) second second l = second).
    { unfold key_end. change (key_outlives_readers (but None)) with true. cbv iota. rewrite last. apply Z.max_id. }
    rewrite key_ends. right. auto. }
  destruct is_ready as [free | (at_h & last & all)].
  - rewrite free. eexists. split; [reflexivity |]. right. simpl. split; [reflexivity |]. split; [reflexivity |].
    intros p [<- | []]. reflexivity.
  - rewrite at_h. destruct (place_of c (places h)) as [before |] eqn:mine.
    + assert (before = second) as ->.
      { unfold place_of in mine. destruct (find (is_of c) (places h)) as [p |] eqn:found; [| discriminate].
        apply find_some in found as [p_in _]. inversion mine. auto. }
      eexists. split; [reflexivity |]. rewrite Z.max_id. now apply joined.
    + unfold lists_all. rewrite last, Z.leb_refl. eexists. split; [reflexivity |]. now apply joined.
Qed.

Lemma is_served : forall s n c h, now s = 0 -> In (ask Share c 0 second) (sent s) ->
  share (but None) 0 (ask Share c 0 second) (shelf_of s n) = (h, true) ->
  step (but None) s (at_node n (ask Share c 0 second)) =
    Some (with_vote (with_shelf s n h) {| voter := n; answered := ask Share c 0 second |}).
Proof.
  intros s n c h at_0 sent_r served. unfold step, at_node.
  change (reaches (base (but None)) n n) with (n =? n)%nat. rewrite Nat.eqb_refl.
  destruct (in_dec request_dec (ask Share c 0 second) (sent s)); [| contradiction].
  change (server_clock (base (but None)) n (now s)) with (now s). rewrite at_0. simpl andb. cbv iota.
  change (serve (but None) 0 (ask Share c 0 second) (shelf_of s n)) with (share (but None) 0 (ask Share c 0 second) (shelf_of s n)).
  now rewrite served.
Qed.

(* Attempt c, which reads, joins the others by nodes 0 and 1. *)
Lemma one_more : forall s c, now s = 0 -> phase_of s c = Idle -> (2 <= c)%nat ->
  ready (shelf_of s node_0) -> ready (shelf_of s node_1) ->
  exists s', run (but None) s (reads_ c 0 node_0 node_1) = Some s' /\ now s' = 0 /\
    ready (shelf_of s' node_0) /\ ready (shelf_of s' node_1) /\
    phase_of s' c = Holding Reads validity /\ (forall d, d <> c -> phase_of s' d = phase_of s d).
Proof.
  intros s c at_0 idle reader ready_0 ready_1. set (r := ask Share c 0 second).
  destruct (another_joins c _ ready_0) as (h0 & shared_0 & ready_0').
  destruct (another_joins c _ ready_1) as (h1 & shared_1 & ready_1').
  assert (mode_c : begins_as (but None) c = Reads).
  { simpl. destruct (Nat.ltb_spec c 2); [lia | reflexivity]. }
  set (s1 := with_sent (with_phase s c (Trying 0 second)) r).
  set (s2 := with_vote (with_shelf s1 node_0 h0) {| voter := node_0; answered := r |}).
  set (s3 := with_vote (with_shelf s2 node_1 h1) {| voter := node_1; answered := r |}).
  exists (with_phase s3 c (Holding Reads validity)).
  assert (begins : step (but None) s (Begins c second) = Some s1).
  { unfold step. rewrite idle. unfold first_of. rewrite mode_c, at_0. reflexivity. }
  assert (first : step (but None) s1 (at_node node_0 r) = Some s2)
    by (apply is_served; [assumption | now left | assumption]).
  assert (second_ : step (but None) s2 (at_node node_1 r) = Some s3)
    by (apply is_served; [assumption | now left | assumption]).
  assert (wins : step (but None) s3 (Wins c (0 + validity)) = Some (with_phase s3 c (Holding Reads validity))).
  { unfold step. assert (phase_of s3 c = Trying 0 second) as -> by (simpl; apply update_same).
    unfold first_of. rewrite mode_c. cbn [reads]. fold r.
    assert (won : majority (but None) s3 r = true).
    { unfold majority, voters, needed. rewrite andb_false_l. cbn -[request_dec Nat.leb r].
      destruct (request_dec r r); [| contradiction]. reflexivity. }
    rewrite won. reflexivity. }
  unfold reads_. fold r. cbn [Runs.run]. rewrite begins, first, second_, wins.
  split; [reflexivity |]. split; [assumption |]. split; [assumption |]. split; [assumption |].
  split; [simpl; apply update_same |]. intros d differ. simpl. now rewrite !update_other.
Qed.

Lemma readers_join : forall number, exists s, reachable (but None) s /\ now s = 0 /\
  ready (shelf_of s node_0) /\ ready (shelf_of s node_1) /\
  (forall c, (2 <= c < 2 + number)%nat -> phase_of s c = Holding Reads validity) /\
  (forall c, (2 + number <= c)%nat -> phase_of s c = Idle).
Proof.
  induction number as [| number (s & reached & at_0 & ready_0 & ready_1 & hold & idle)].
  { exists initial. split; [apply at_first |]. simpl. unfold ready. repeat split; auto; lia. }
  destruct (one_more s (2 + number)%nat at_0) as (s' & ran & at_0' & ready_0' & ready_1' & holds_ & others);
    try assumption; [apply idle; lia | lia |].
  exists s'. split; [eapply run_reachable; eassumption |].
  split; [assumption |]. split; [assumption |]. split; [assumption |].
  split; intros d range.
  - destruct (Nat.eq_dec d (2 + number)) as [-> | other]; [assumption |]. rewrite others by assumption. apply hold. lia.
  - rewrite others by lia. apply idle. lia.
Qed.

Theorem any_number_of_readers : forall number, exists y, assumed_for_locks y /\ (forall r, obeys y r = true) /\
  exists s, reachable y s /\
  exists readers, NoDup readers /\ length readers = number /\ forall c, In c readers -> has_lock y s c Reads.
Proof.
  intros number. exists (but None). split; [exact all_hold |]. split; [apply all_are_obeyed |].
  destruct (readers_join number) as (s & reached & at_0 & _ & _ & hold & _).
  exists s. split; [assumption |]. exists (seq 2 number). split; [apply seq_NoDup |]. split; [apply seq_length |].
  intros c c_in. apply in_seq in c_in. exists validity. split; [apply hold; lia |].
  change (client_clock (base (but None)) c (now s)) with (now s). rewrite at_0. reflexivity.
Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

Definition kind (e : event) : nat :=
  match e with
  | Time_passes _ => 0 | Begins _ _ => 1 | Arrives _ _ _ => 2 | Ends _ => 3 | Place_ends _ _ => 4 | Loses _ => 5
  | Wins _ _ => 6 | Begins_extension _ _ => 7 | Extended _ _ _ _ => 8 | Repairs _ _ => 9 | Downgrades _ _ => 10
  | Cuts _ _ => 11 | Releases _ => 12
  end.
Definition is_loss (e : event) : bool := match e with Loses _ => true | _ => false end.

(* B extends and cuts its lock. D joins at node 2 alone, and its place and the key there end. *)
Definition turns_and_ends : list event :=
  becoming_a_reader ++ leaving ++ last_reader ++ writing_again ++
  [Begins_extension B second; Cuts B 0; Begins D second; at_node node_2 (ask Share D (1200 * ms) second);
   Time_passes second; Place_ends node_2 D; Ends node_2].

(* With all rules and assumptions, every step but a loss, which is a step of systems without Keys_are_kept. *)
Theorem every_step_occurs : exists y events s, assumed_for_locks y /\ (forall r, obeys y r = true) /\
  run y initial events = Some s /\ all_occur kind is_loss events.
Proof.
  destruct (can_run_to (step (but None)) initial turns_and_ends) as [s ran]; [vm_compute; reflexivity |].
  exists (but None), turns_and_ends, s. split; [exact all_hold |]. split; [apply all_are_obeyed |].
  split; [assumption | all_occur].
Qed.
