(* SPDX-License-Identifier: BSD-2-Clause

   Each run of Attempt.v and Lease.v is a run of Classic.v.

   The surroundings are those of Classic.v: time, servers, and requests that arrive in any order, often or never. Of the
   client (src/client) only one rule enters, which gives each vote its round: a node that owes an answer is not
   asked, and counts as not ready. The number of the round therefore needs no place in the event. *)
Require Import ZArith NArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic Attempt Lease.
Import ListNotations.
Open Scope Z_scope.

(* ---- sets of nodes ----------------------------------------------------------------------------- *)

Lemma has_or : forall a b n, has (or a b) n = has a n || has b n.
Proof. intros. apply N.lor_spec. Qed.
Lemma has_and : forall a b n, has (and a b) n = has a n && has b n.
Proof. intros. apply N.land_spec. Qed.
Lemma has_less : forall a b n, has (less a b) n = has a n && negb (has b n).
Proof. intros. apply N.ldiff_spec. Qed.
Lemma has_none : forall n, has none n = false.
Proof. intros. apply N.bits_0. Qed.
Lemma has_all : forall nodes n, has (all nodes) n = (n <? nodes)%nat.
Proof.
  intros. unfold has, all. destruct (Nat.ltb_spec n nodes).
  - apply N.ones_spec_low. lia.
  - apply N.ones_spec_high. lia.
Qed.
Lemma has_bit : forall m n, has (bit m) n = (m =? n)%nat.
Proof.
  intros. unfold has, bit. rewrite N.shiftl_1_l. destruct (Nat.eqb_spec m n) as [-> | other].
  - apply N.pow2_bits_true.
  - apply N.pow2_bits_false. lia.
Qed.
Global Hint Rewrite has_or has_and has_less has_none has_all has_bit : has.
Global Opaque or and less has all bit none.

Lemma is_none_not : forall m n, has m n = true -> m <> none.
Proof. intros m n at_n ->. now rewrite has_none in at_n. Qed.

Lemma count_filter : forall m n, count_below n m = length (filter (has m) (seq 0 n)).
Proof.
  intros m n. induction n as [| n IH]; [reflexivity |]. rewrite seq_S, filter_app, app_length. simpl.
  rewrite IH. destruct (has m n); simpl; lia.
Qed.

Lemma nth_all : forall (l : list node), map (fun i => nth i l 0%nat) (seq 0 (length l)) = l.
Proof.
  induction l as [| n l IH]; [reflexivity |]. simpl. f_equal. rewrite <- seq_shift, map_map. exact IH.
Qed.

Lemma filter_map : forall (P : node -> bool) (f : nat -> node) (s : list nat),
  length (filter P (map f s)) = length (filter (fun i => P (f i)) s).
Proof. induction s as [| i s IH]; [reflexivity |]. simpl. destruct (P (f i)); simpl; lia. Qed.

(* Each node in the set is a selected one of the list. *)
Lemma count_selected : forall m (l : list node) P,
  (forall n, has m n = true -> (n < length l)%nat /\ P (nth n l 0%nat) = true) ->
  (count m <= length (filter P l))%nat.
Proof.
  intros m l P each. unfold count. rewrite count_filter. rewrite <- (nth_all l) at 1. rewrite filter_map.
  apply NoDup_incl_length; [apply NoDup_filter, seq_NoDup |].
  intros n at_n. apply filter_In in at_n as [_ at_n]. destruct (each n at_n).
  apply filter_In. split; [apply in_seq; lia | assumption].
Qed.

(* ---- the code in its surroundings -------------------------------------------------------------- *)

Section Code.
Variable y : system.
Variable terms_of : Classic.attempt -> terms.
Variable rules_of : Classic.attempt -> rules.

(* The system has the settings that the clients have, and no clock was measured to be fast. *)
Record has_settings : Prop := {
  lists : forall c, length (list_of y c) = nodes (terms_of c);
  quorums : forall n, Classic.quorum y n = majority_of n;
  allowances : forall c, Classic.drift_ppm y c = drift_ppm (terms_of c) /\ Classic.drift_fixed y = drift_fixed (terms_of c);
  all_steady : forall c n, steady y c n = true;
  clock_comes_first : reads_clock_first y = true;
  releases_end : release_ends y = true;
  margins : forall c, 0 <= lost_margin (rules_of c);
}.

Inductive machine := Tries (a : attempt) | Leased (l : lease).

(* `owes`: the request to which a node has yet to answer (the calls of a round, in src/client/locks). *)
Record world := {
  around : Classic.state; (* its phases are not used: the machines take their place *)
  machine_of : Classic.attempt -> machine;
  owes : Classic.attempt -> nat -> option request;
}.

Definition resting : world :=
  {| around := initial; machine_of := fun _ => Tries fresh_attempt; owes := fun _ _ => None |}.

Definition name (c : Classic.attempt) (n : nat) : node := nth n (list_of y c) 0%nat.
Definition reads (w : world) (c : Classic.attempt) : time := client_clock y c (now (around w)).

Definition is_outside (e : event) : Prop :=
  match e with Time_passes _ | Arrives _ _ _ | Ends _ _ | Loses _ _ => True | _ => False end.

(* A node may lose its debt at any time: it answered, or its connection ended. *)
Definition forgives (o o' : nat -> option request) : Prop := forall n, o' n = o n \/ o' n = None.
(* A node that owes an answer is not asked. Another may be, or the request fails at once. *)
Definition asks (requests : list (mask * request)) (o o' : nat -> option request) : Prop :=
  forall n, o' n = o n \/ (o n = None /\ exists m r, In (m, r) requests /\ has m n = true /\ o' n = Some r).

(* A node's vote is its answer to the request that it owes. All other answers may come at any time. *)
Definition may_grant (w : world) (c : Classic.attempt) (n : nat) (v : answer) : Prop :=
  v = Granted -> exists q, owes w c n = Some q /\ In {| voter := name c n; answered := q |} (Classic.votes (around w)).

Definition not_empty (requests : list (mask * request)) : list request :=
  map snd (filter (fun p => negb (is_none (fst p))) requests).
Definition with_requests (s : Classic.state) (l : list request) : Classic.state :=
  {| now := now s; keys := keys s; phase_of := phase_of s; sent := l ++ sent s; Classic.votes := Classic.votes s |}.

Definition attempt_requests (c : Classic.attempt) (t : time) (a : attempt) : list (mask * request) :=
  [(acquire a, set_of c t (ttl (terms_of c)))].
Definition lease_requests (c : Classic.attempt) (t : time) (l : lease) : list (mask * request) :=
  [(extend l, extend_of c t (extend_ttl l)); (repair l, set_of c t (repair_ttl l));
   (catch_up l, extend_of c t (repair_ttl l))].

Definition sends (w : world) (c : Classic.attempt) (m : machine) (requests : list (mask * request)) (release : mask)
  (o : nat -> option request) : world :=
  {| around := with_requests (around w) (not_empty (requests ++ [(release, delete_of c)]));
     machine_of := update (machine_of w) c m; owes := update (owes w) c o |}.

Definition attempt_may (w : world) (c : Classic.attempt) (e : attempt_event) : Prop :=
  match e with Vote n v => may_grant w c n v | _ => True end.
Definition lease_may (w : world) (c : Classic.attempt) (e : lease_event) (o : nat -> option request) : Prop :=
  (forall n, o n <> None -> has (ready e) n = false) /\
  match what e with
  | Answers n v => may_grant w c n v
  | Starts _ _ _ _ => False (* it begins once *)
  | _ => True
  end.

Inductive moves (w : world) : world -> Prop :=
| outside : forall e s, is_outside e -> step y (around w) e = Some s ->
    moves w {| around := s; machine_of := machine_of w; owes := owes w |}
| tries : forall c a e o o',
    machine_of w c = Tries a -> attempt_may w c e -> forgives (owes w c) o ->
    let a' := attempt_step (terms_of c) e (reads w c) a in
    let requests := attempt_requests c (now (around w)) a' in
    asks requests o o' -> moves w (sends w c (Tries a') requests (release a') o')
| begins_lease : forall c a e o o',
    machine_of w c = Tries a -> state a = Won -> forgives (owes w c) o ->
    (forall n, o n <> None -> has (ready e) n = false) ->
    what e = Starts (win_end a) (asked (Attempt.votes a)) (granted (Attempt.votes a)) (denied (Attempt.votes a)) ->
    let l := lease_step (terms_of c) (rules_of c) e (reads w c) fresh_lease in
    let requests := lease_requests c (now (around w)) l in
    asks requests o o' -> moves w (sends w c (Leased l) requests (unlock l) o')
| leases : forall c l e o o',
    machine_of w c = Leased l -> forgives (owes w c) o -> lease_may w c e o ->
    let l' := lease_step (terms_of c) (rules_of c) e (reads w c) l in
    let requests := lease_requests c (now (around w)) l' in
    asks requests o o' -> moves w (sends w c (Leased l') requests (unlock l') o')
| voids : forall c l, machine_of w c = Leased l ->
    moves w (sends w c (Leased (void (reads w c) l)) [] none (owes w c))
| disowns : forall c l, machine_of w c = Leased l -> moves w (sends w c (Leased (disown l)) [] none (owes w c)).

Inductive code_reaches : world -> Prop :=
| code_at_first : code_reaches resting
| code_moves : forall w w', code_reaches w -> moves w w' -> code_reaches w'.

(* The client's validity, as rl_lease_validity() has it. An attempt that was won has no lease yet. *)
Definition answers_held (w : world) (c : Classic.attempt) : bool :=
  match machine_of w c with
  | Leased l => 0 <? validity l (reads w c)
  | Tries a => match state a with Won => reads w c <? win_end a | _ => false end
  end.

(* ---- what ties a machine to the proved system --------------------------------------------------- *)

Hypothesis settings : has_settings.

Section One.
Variable c : Classic.attempt.
Let k := terms_of c.
Let r := rules_of c.

Definition vote_in (l : list Classic.vote) (n : nat) (q : request) : Prop := In {| voter := name c n; answered := q |} l.
Definition owes_only (o : nat -> option request) (n : nat) (q : request) : Prop := o n = None \/ o n = Some q.

Lemma majority_counts : forall s q t, by_ q = c ->
  (forall n, has (granted t) n = true -> (n < nodes k)%nat /\ vote_in (Classic.votes s) n q) ->
  tally_won (quorum k) t = true -> Classic.majority y s q = true.
Proof.
  intros s q t of_c voted won. unfold Classic.majority, tally_won in *. rewrite Nat.leb_le in *.
  rewrite of_c, (quorums settings), (lists settings). etransitivity; [exact won |].
  unfold voters. rewrite of_c. apply count_selected. intros n at_n. destruct (voted n at_n) as [below there].
  rewrite (lists settings). split; [assumption |]. apply existsb_exists. eexists. split; [exact there |].
  simpl. unfold name. rewrite Nat.eqb_refl. unfold counts. rewrite (all_steady settings). simpl.
  assert (same : request_eqb q q = true).
  { destruct q as [w b t0 u]. unfold request_eqb. simpl. rewrite Nat.eqb_refl, !Z.eqb_refl. now destruct w. }
  destruct (counts_own_round y); [assumption | apply Nat.eqb_refl].
Qed.

Lemma end_counts : forall s q, by_ q = c ->
  Classic.validity_end y s q = client_clock y c (began q) + Classic.ttl q - drift k (Classic.ttl q).
Proof.
  intros s q of_c. unfold Classic.validity_end, drift. rewrite (clock_comes_first settings), of_c.
  now destruct (allowances settings c) as [-> ->].
Qed.

(* Steps of this client alone, at one moment. *)
Definition runs (s s' : Classic.state) : Prop :=
  follows y s s' /\ now s' = now s /\ keys s' = keys s /\ Classic.votes s' = Classic.votes s /\
  incl (sent s) (sent s') /\ forall d, d <> c -> phase_of s' d = phase_of s d.

Lemma runs_not : forall s, runs s s.
Proof. intros. repeat split; try constructor; auto using incl_refl. Qed.

Lemma runs_on : forall s t u, runs s t -> runs t u -> runs s u.
Proof.
  intros s t u (f & n & h & v & i & p) (f' & n' & h' & v' & i' & p').
  repeat split; try congruence; [| eapply incl_tran; eassumption | intros d other; rewrite p', p; auto].
  clear - f f'. induction f'; eauto using later.
Qed.

Lemma runs_one : forall s e s',
  step y s e = Some s' -> now s' = now s -> keys s' = keys s -> Classic.votes s' = Classic.votes s ->
  incl (sent s) (sent s') -> (forall d, d <> c -> phase_of s' d = phase_of s d) -> runs s s'.
Proof. intros. repeat split; try assumption. eapply later; [apply at_once | eassumption]. Qed.

(* By this event, which the tactic shows to be possible. *)
Ltac one_step e possible :=
  eexists; split;
  [ apply (runs_one _ e);
    [ unfold step; possible; reflexivity | simpl; reflexivity | simpl; reflexivity | simpl; reflexivity | |];
    simpl; auto using incl_refl, incl_tl; intros d other; now apply update_other
  | simpl; rewrite ?update_same; auto ].

Lemma can_release : forall s, exists s', runs s s' /\ phase_of s' c = Over /\ In (delete_of c) (sent s').
Proof. intros s. one_step (Releases c) ltac:(rewrite (releases_end settings)). Qed.

Lemma can_cut : forall s old until, phase_of s c = Holding old -> until <= old ->
  exists s', runs s s' /\ phase_of s' c = Holding until /\ sent s' = sent s.
Proof.
  intros s old until at_c shorter. apply Z.leb_le in shorter.
  one_step (Cuts c until) ltac:(rewrite at_c, shorter).
Qed.

Lemma can_repair : forall s old span, phase_of s c = Holding old ->
  exists s', runs s s' /\ phase_of s' c = Holding old /\ In (set_of c (now s) span) (sent s').
Proof. intros s old span at_c. one_step (Repairs c span) ltac:(rewrite at_c). Qed.

Lemma can_extend : forall s old span, phase_of s c = Holding old ->
  exists s', runs s s' /\ phase_of s' c = Holding old /\ In (extend_of c (now s) span) (sent s').
Proof. intros s old span at_c. one_step (Begins_extension c span) ltac:(rewrite at_c). Qed.

Lemma can_begin : forall s span, phase_of s c = Idle ->
  exists s', runs s s' /\ phase_of s' c = Trying (now s) span /\ In (set_of c (now s) span) (sent s').
Proof. intros s span at_c. one_step (Begins c span) ltac:(rewrite at_c). Qed.

Lemma can_win : forall s t span g, phase_of s c = Trying t span ->
  (forall n, has (granted g) n = true -> (n < nodes k)%nat /\ vote_in (Classic.votes s) n (set_of c t span)) ->
  tally_won (quorum k) g = true ->
  exists s', runs s s' /\ phase_of s' c = Holding (client_clock y c t + span - drift k span) /\ sent s' = sent s.
Proof.
  intros s t span g at_c voted won.
  one_step (Wins c (client_clock y c t + span - drift k span)) ltac:(
    rewrite at_c; cbv zeta; rewrite (majority_counts s (set_of c t span) g eq_refl voted won),
      (end_counts s (set_of c t span) eq_refl), Z.leb_refl; simpl).
Qed.

Lemma can_prolong : forall s old t span g, phase_of s c = Holding old -> t <= now s -> client_clock y c (now s) < old ->
  (forall n, has (granted g) n = true -> (n < nodes k)%nat /\ vote_in (Classic.votes s) n (extend_of c t span)) ->
  tally_won (quorum k) g = true ->
  exists s', runs s s' /\ phase_of s' c = Holding (Z.max old (client_clock y c t + span - drift k span)) /\ sent s' = sent s.
Proof.
  intros s old t span g at_c past inside_ voted won. apply Z.leb_le in past. apply Z.ltb_lt in inside_.
  one_step (Extended c t span (client_clock y c t + span - drift k span)) ltac:(
    rewrite at_c; cbv zeta; rewrite (majority_counts s (extend_of c t span) g eq_refl voted won), past, inside_,
      (end_counts s (extend_of c t span) eq_refl), Z.leb_refl; simpl).
Qed.

(* ---- an attempt --------------------------------------------------------------------------------- *)

(* A round of votes: those granted are votes for this request, and no other is still to come. *)
Definition round_is (l : list Classic.vote) (o : nat -> option request) (g : tally) (q : request) : Prop :=
  (forall n, has (granted g) n = true -> (n < nodes k)%nat /\ vote_in l n q) /\
  (forall n, has (pending g) n = true -> owes_only o n q).

Definition attempt_is (o : nat -> option request) (a : attempt) (s : Classic.state) : Prop :=
  match state a with
  | Fresh => phase_of s c = Idle /\ acquire a = none /\ forall n, o n = None
  | Voting => exists t, t1 a = client_clock y c t /\ t <= now s /\ phase_of s c = Trying t (ttl k) /\
      (acquire a <> none -> t = now s) /\ round_is (Classic.votes s) o (Attempt.votes a) (set_of c t (ttl k))
  | Won => phase_of s c = Holding (win_end a)
  | Failed_ => phase_of s c = Over
  end /\
  (acquire a <> none -> In (set_of c (now s) (ttl k)) (sent s)) /\
  (release a <> none -> In (delete_of c) (sent s)).

Lemma runs_now : forall s s', runs s s' -> now s' = now s. Proof. now intros s s' (_ & ? & _). Qed.
Lemma runs_votes : forall s s', runs s s' -> Classic.votes s' = Classic.votes s. Proof.
now intros s s' (_ & _ & _ & ? & _). Qed.
Lemma runs_sent : forall s s' q, runs s s' -> In q (sent s) -> In q (sent s').
Proof. intros s s' q (_ & _ & _ & _ & more & _). apply more. Qed.

Lemma fails_is : forall o why a s, (acquire a <> none -> In (set_of c (now s) (ttl k)) (sent s)) ->
  exists s', runs s s' /\ attempt_is o (fail why a) s'.
Proof.
  intros o why a s acquires. destruct (can_release s) as (s' & run & over & there).
  exists s'. split; [assumption |]. split; [exact over |]. split; simpl; [| auto].
  intros some. rewrite (runs_now _ _ run). eauto using runs_sent.
Qed.

Lemma has_pending : forall g n, has (pending g) n =
  has (asked g) n && negb (has (granted g) n || has (denied g) n || (has (absent g) n || has (failed g) n)).
Proof. intros. unfold pending. now autorewrite with has. Qed.

Lemma vote_pending : forall g n v m, has (pending (tally_vote g n v)) m = true ->
  has (pending g) m = true /\ (v = No_answer \/ m <> n).
Proof.
  intros g n v m at_m. split.
  - rewrite has_pending in *. destruct v; simpl in at_m; autorewrite with has in at_m; destruct (has (asked g) m);
      simpl in *; try discriminate; rewrite negb_true_iff in *; rewrite !orb_false_iff in *; tauto.
  - destruct v; [now left | | | | |]; right; intros ->; rewrite has_pending in at_m; simpl in at_m;
      autorewrite with has in at_m; rewrite Nat.eqb_refl, ?orb_true_r in at_m; simpl in at_m;
      rewrite ?andb_false_r, ?orb_true_r in at_m; simpl in at_m; rewrite ?andb_false_r in at_m; discriminate.
Qed.

Lemma vote_granted : forall g n v m, has (granted (tally_vote g n v)) m = true ->
  has (granted g) m = true \/ (v = Granted /\ m = n).
Proof.
  intros g n v m at_m. destruct v; simpl in at_m; auto. autorewrite with has in at_m.
  apply orb_true_iff in at_m as [? | same]; [now left | right]. apply Nat.eqb_eq in same. now split.
Qed.

Lemma close_pending : forall g m, has (pending (tally_close g)) m = false.
Proof.
  intros g m. rewrite has_pending. simpl. rewrite has_or, has_pending.
  destruct (has (asked g) m), (has (granted g) m), (has (denied g) m), (has (absent g) m), (has (failed g) m); reflexivity.
Qed.

(* A vote is counted: it answers the request that the node owed before. *)
Lemma round_vote : forall l o o' g q n v,
  round_is l o g q -> forgives o o' -> takes (nodes k) g n v = true ->
  (v = Granted -> exists q', o n = Some q' /\ vote_in l n q') -> round_is l o' (tally_vote g n v) q.
Proof.
  intros l o o' g q n v [given owed] less_owed taken evidence. unfold takes in taken.
  apply andb_true_iff in taken as [taken _]. apply andb_true_iff in taken as [below at_n]. apply Nat.ltb_lt in below.
  split; intros m at_m.
  - apply vote_granted in at_m as [? | [-> ->]]; [auto |]. split; [assumption |].
    destruct (evidence eq_refl) as (q' & owes_q & voted). destruct (owed n at_n); congruence.
  - apply vote_pending in at_m as [at_m _]. unfold owes_only. destruct (owed m at_m), (less_owed m); intuition congruence.
Qed.

Lemma round_forgives : forall l o o' g q, round_is l o g q -> forgives o o' -> round_is l o' g q.
Proof.
  intros l o o' g q [given owed] less_owed. split; [assumption |]. intros m at_m. unfold owes_only.
  destruct (owed m at_m), (less_owed m); intuition congruence.
Qed.

Lemma round_opens : forall l o m q, (forall n, has m n = true -> o n = None) -> round_is l o (tally_open (nodes k) m) q.
Proof.
  intros l o m q nothing. split; intros n at_n; [simpl in at_n; rewrite has_none in at_n; discriminate |].
  left. apply nothing. rewrite has_pending in at_n. simpl in at_n. autorewrite with has in at_n.
  now apply andb_true_iff in at_n as [[? _]%andb_true_iff _].
Qed.

Lemma count_is : forall o a s, state a = Voting -> attempt_is o a s ->
  exists s', runs s s' /\ attempt_is o (count_votes k (client_clock y c (now s)) a) s'.
Proof.
  intros o a s votes_ is. pose proof is as (going & acquires & releases).
  rewrite votes_ in going. destruct going as (t & read & past & trying & when & given & owed). unfold count_votes.
  destruct (tally_won (quorum k) (Attempt.votes a)) eqn:won.
  - unfold majority. destruct (_ || _); [now apply fails_is |].
    destruct (can_win s t (ttl k) (Attempt.votes a) trying given won) as (s' & run & holding & kept_).
    exists s'. split; [assumption |]. split; [simpl; rewrite holding, read; reflexivity |].
    rewrite kept_, (runs_now _ _ run). now split.
  - destruct (tally_hopeless _ _); [now apply fails_is |]. exists s. split; [apply runs_not | assumption].
Qed.

Lemma conclude_is : forall o e a s, state a = Voting -> attempt_is o a s ->
  exists s', runs s s' /\ attempt_is o (conclude k e (client_clock y c (now s)) a) s'.
Proof.
  intros o e a s votes_ is.
  assert (closed : attempt_is o (a <| Attempt.votes := tally_close (Attempt.votes a) |>a) s).
  { destruct is as (is & ?). split; [| assumption]. simpl. rewrite votes_ in *.
    destruct is as (t & ? & ? & ? & ? & given & _). exists t. repeat split; auto; try now apply given.
    intros n at_n. now rewrite close_pending in at_n. }
  unfold conclude. destruct e; try (apply fails_is; apply is); try now apply count_is.
  all: destruct (_ <=? _); now apply count_is.
Qed.

Lemma recorded_is : forall o o' e a s,
  attempt_is o a s -> forgives o o' ->
  (forall n v, e = Vote n v -> v = Granted -> exists q, o n = Some q /\ vote_in (Classic.votes s) n q) ->
  exists s', runs s s' /\ attempt_is o' (record_event k e (client_clock y c (now s)) (cleared a)) s'.
Proof.
  intros o o' e a s (is & _) less_owed evidence.
  assert (same : attempt_is o' (cleared a) s).
  { split; [| now split]. unfold attempt_is in is. cbn [state cleared changed]. destruct (state a) eqn:at_; auto.
    - destruct is as (idle & _ & nothing). split; [exact idle |]. split; [reflexivity |].
      intros n. destruct (less_owed n) as [-> |]; [apply nothing | assumption].
    - destruct is as (t & read & past & trying & _ & round_). exists t. repeat split; auto; try now intros [].
      + now apply round_.
      + now apply round_.
      + now apply (proj2 (round_forgives _ _ _ _ _ round_ less_owed)). }
  assert (nothing : exists s', runs s s' /\ attempt_is o' (cleared a) s') by (exists s; split;
    [apply runs_not | exact same]).
  unfold record_event. destruct e as [ready_ | n v | |]; cbn [state cleared changed];
    destruct (state a) eqn:at_; try exact nothing.
  - (* it begins *)
    unfold start. destruct (tally_hopeless _ _).
    + apply fails_is. simpl. now intros [].
    + destruct (can_begin s (ttl k) (proj1 is)) as (s' & run & trying & there). exists s'. split; [assumption |].
      split; [| split; simpl; rewrite ?(runs_now _ _ run); now auto].
      simpl. exists (now s). rewrite (runs_now _ _ run), (runs_votes _ _ run).
      split; [reflexivity |]. split; [lia |]. split; [assumption |]. split; [reflexivity |].
      apply round_opens. intros n _. destruct (less_owed n) as [-> |]; [now apply is | assumption].
  - (* a vote *)
    destruct (takes _ _ _ _) eqn:taken; [| exact nothing].
    destruct is as (t & read & past & trying & _ & round_). exists s. split; [apply runs_not |].
    split; [| now split]. simpl. rewrite ?at_. exists t. do 3 (split; [assumption |]). split; [now intros [] |].
    eapply (round_vote _ o o' _ _ n v round_ less_owed taken); eauto.
  - destruct (takes _ _ _ _); [| exact nothing]. exists s. split; [apply runs_not |]. split; [| now split].
    simpl. rewrite ?at_. exact is.
  - destruct (takes _ _ _ _); [| exact nothing]. exists s. split; [apply runs_not |]. split; [| now split].
    simpl. rewrite ?at_. exact is.
Qed.

Lemma attempt_step_is : forall o o' e a s,
  attempt_is o a s -> forgives o o' ->
  (forall n v, e = Vote n v -> v = Granted -> exists q, o n = Some q /\ vote_in (Classic.votes s) n q) ->
  exists s', runs s s' /\ attempt_is o' (attempt_step k e (client_clock y c (now s)) a) s'.
Proof.
  intros o o' e a s is less_owed evidence. unfold attempt_step.
  destruct (recorded_is o o' e a s is less_owed evidence) as (s1 & run & is1).
  set (a1 := record_event _ _ _ _) in *. destruct (negb (under_way a1)) eqn:going; [eauto |].
  assert (votes_ : state a1 = Voting) by (unfold under_way in going; now destruct (state a1)).
  destruct (conclude_is o' e a1 s1 votes_ is1) as (s2 & run2 & is2). rewrite (runs_now _ _ run) in is2.
  exists s2. split; [eauto using runs_on |].
  cbv zeta. destruct (under_way (conclude _ _ _ _)); exact is2.
Qed.

(* ---- a lease ------------------------------------------------------------------------------------ *)

(* A machine at work, between the beginning and the end of one step. The steps of Classic.v are taken at once. *)
Section Step.
Variable s0 : Classic.state.               (* before the step *)
Variable o : nat -> option request.        (* the debts behind the event *)
Variable e : lease_event.
Hypothesis not_owing : forall n, o n <> None -> has (ready e) n = false.
Let at_ := client_clock y c (now s0).

Definition phase_is (l : lease) (s : Classic.state) : Prop :=
  (holds l = true -> phase_of s c = Holding (validity_end l)) /\
  (holds l = false -> phase_of s c = Over /\ round_open l = false).

Definition sent_are (l : lease) (s : Classic.state) : Prop :=
  (extend l <> none -> In (extend_of c (now s0) (extend_ttl l)) (sent s)) /\
  (unlock l <> none -> In (delete_of c) (sent s)) /\
  (repair l <> none -> In (set_of c (now s0) (repair_ttl l)) (sent s)) /\
  (catch_up l <> none -> In (extend_of c (now s0) (repair_ttl l)) (sent s)).

Definition reached (l : lease) : Prop := exists s, runs s0 s /\ phase_is l s /\ sent_are l s.
Definition loose (l : lease) : Prop := reached l /\ (holds l = true -> at_ < validity_end l).

(* The round that is open: `late_too` is a node that has just become late, and `here` one whose vote is counted next. *)
Definition open_is (late_too here : option nat) (l : lease) : Prop :=
  exists t, round_t1 l = client_clock y c t /\ t <= now s0 /\
    (extend l <> none -> t = now s0 /\ extend_ttl l = round_ttl l) /\
    let q := extend_of c t (round_ttl l) in
    (forall n, has (granted (round l)) n = true -> (n < nodes k)%nat /\ vote_in (Classic.votes s0) n q) /\
    (forall n, has (pending (round l)) n = true -> late_too <> Some n -> has (late l) n = false) /\
    (forall n, has (pending (round l)) n = true -> has (repaired l) n = false ->
       has (catch_up l) n = false /\ owes_only o n q /\ (here = Some n -> vote_in (Classic.votes s0) n q)) /\
    (forall n, has (repair l) n = true -> has (asked (round l)) n = true ->
       has (repaired l) n = true /\ has (late l) n = false).

Definition good (late_too here : option nat) (l : lease) : Prop :=
  loose l /\ (round_open l = true -> open_is late_too here l).

Lemma good_closed : forall lt h l, loose l -> round_open l = false -> good lt h l.
Proof. intros lt h l is closed. split; [assumption | congruence]. Qed.

(* ---- losing, and what changes no phase ---- *)

(* All that `loose` and `good` see of a lease. *)
Definition same_phase (l l' : lease) : Prop :=
  holds l' = holds l /\ validity_end l' = validity_end l /\ round_open l' = round_open l.
Definition same_sends (l l' : lease) : Prop :=
  extend l' = extend l /\ extend_ttl l' = extend_ttl l /\ repair l' = repair l /\ catch_up l' = catch_up l /\
  repair_ttl l' = repair_ttl l.
Definition same_round (l l' : lease) : Prop :=
  round l' = round l /\ round_t1 l' = round_t1 l /\ round_ttl l' = round_ttl l /\ repaired l' = repaired l /\
  late l' = late l.
Definition same (l l' : lease) : Prop :=
  same_phase l l' /\ same_sends l l' /\ same_round l l' /\ unlock l' = unlock l.

Lemma same_good : forall lt h l l', same l l' -> good lt h l -> good lt h l'.
Proof.
  intros lt h l l' ((a1 & a2 & a3) & (b1 & b2 & b3 & b4 & b5) & (c1 & c2 & c3 & c4 & c5) & d).
  unfold good, loose, reached, open_is, phase_is, sent_are.
  rewrite a1, a2, a3, b1, b2, b3, b4, b5, c1, c2, c3, c4, c5, d. auto.
Qed.

Lemma sent_stay : forall l s s', runs s s' -> sent_are l s -> sent_are l s'.
Proof. intros l s s' run (a & b & c0 & d). repeat split; intros some; eapply runs_sent; eauto. Qed.

Lemma over_good : forall lt h l l', reached l -> holds l' = false -> round_open l' = false -> same_sends l l' ->
  good lt h l'.
Proof.
  intros lt h l l' (s & run & _ & (a & _ & b & d)) over closed (e1 & e2 & e3 & e4 & e5). apply good_closed; [| assumption].
  destruct (can_release s) as (s' & run' & is_over & deleted).
  split; [| congruence]. exists s'. split; [eauto using runs_on |]. split; [split; [congruence | auto] |].
  unfold sent_are. rewrite e1, e2, e3, e4, e5. repeat split; intros; eauto using runs_sent.
Qed.

Lemma closed_good : forall lt h l l', loose l -> holds l' = holds l -> validity_end l' = validity_end l ->
  round_open l' = false -> same_sends l l' -> unlock l' = unlock l -> good lt h l'.
Proof.
  intros lt h l l' ((s & run & (ph & ph') & (a & u & b & d)) & inside_) st va closed (e1 & e2 & e3 & e4 & e5) un.
  apply good_closed; [| assumption].
  unfold loose, reached, phase_is, sent_are in *. rewrite st, va, closed, e1, e2, e3, e4, e5, un.
  split; [| assumption]. exists s. split; [assumption |].
  split; [split; [exact ph | intros over; split; [now apply ph' | reflexivity]] | now repeat split].
Qed.

Lemma drop_sends : forall l, same_sends l (drop_rounds l).
Proof. intros l. unfold drop_rounds. cbv zeta. destruct (_ || _); repeat split. Qed.

Lemma lose_sends : forall l, same_sends l (lose l).
Proof.
  intros l. destruct (drop_sends l) as (e1 & e2 & e3 & e4 & e5). unfold lose. cbv zeta.
  destruct (holds _); repeat split; assumption.
Qed.

Lemma lose_good : forall lt h l, reached l -> good lt h (lose l).
Proof.
  intros lt h l is. apply (over_good _ _ l); [exact is | reflexivity | | apply lose_sends].
  unfold lose. cbv zeta. destruct (holds _); reflexivity.
Qed.

Lemma retry_same : forall l, same l (schedule_retry k r at_ l).
Proof. intros l. unfold schedule_retry. cbv zeta. destruct (_ || _); repeat split. Qed.

Lemma schedule_same : forall base l, same l (schedule_renewal r base at_ l).
Proof. intros base l. unfold schedule_renewal. destruct (_ || _); repeat split. Qed.

Lemma same_on : forall l l1 l2, same l l1 -> same l1 l2 -> same l l2.
Proof. unfold same, same_phase, same_sends, same_round. intuition congruence. Qed.

Lemma unsure_same : forall l, same l (become_unsure k r at_ l).
Proof.
  intros l. eapply same_on; [| apply retry_same]. destruct (stage l) eqn:st; repeat split.
  unfold holds. rewrite st. reflexivity.
Qed.

Lemma failed_good : forall lt h l, loose l -> good lt h (round_failed k r at_ l).
Proof.
  intros lt h l is. eapply same_good; [apply unsure_same |]. cbv zeta.
  eapply closed_good; [exact is | | | | |]; destruct (by_caller _); repeat split.
Qed.

Lemma failed_sends : forall l, same_sends l (round_failed k r at_ l).
Proof.
  intros l. unfold round_failed. cbv zeta.
  match goal with |- same_sends _ (become_unsure k r at_ ?l1) => destruct (unsure_same l1) as (_ & (e1 & e2 & e3 & e4 &
    e5) & _) end.
  unfold same_sends. rewrite e1, e2, e3, e4, e5. destruct (by_caller _); repeat split.
Qed.

(* ---- sending ---- *)

Lemma can_send : forall l, loose l -> holds l = true -> forall a b,
  exists s, runs s0 s /\ phase_of s c = Holding (validity_end l) /\ sent_are l s /\
    In (set_of c (now s0) a) (sent s) /\ In (extend_of c (now s0) b) (sent s).
Proof.
  intros l ((s & run & (ph & _) & se) & _) holding a b.
  destruct (can_repair s _ a (ph holding)) as (s1 & run1 & ph1 & in1).
  destruct (can_extend s1 _ b ph1) as (s2 & run2 & ph2 & in2).
  rewrite (runs_now _ _ run1) in in2. rewrite (runs_now _ _ run) in *.
  exists s2. split; [eauto using runs_on |]. split; [assumption |].
  split; [eapply sent_stay; [exact run2 | eapply sent_stay; eassumption] |].
  split; [eauto using runs_sent | assumption].
Qed.

(* Only sets of nodes change. *)
Definition keeps (l l' : lease) : Prop :=
  same_phase l l' /\ round l' = round l /\ extend l' = extend l /\ extend_ttl l' = extend_ttl l /\
  unlock l' = unlock l /\ catch_up l' = catch_up l.

Lemma set_one_open : forall lt h l n, keeps l (set_one k l n) /\ (open_is lt h l -> open_is lt h (set_one k l n)).
Proof.
  intros lt h l n. unfold set_one. cbv zeta. destruct (_ <=? _)%nat; (split; [now repeat split |]); [trivial |].
  intros (t & read & past & fresh & given & lates & owed & sets). exists t.
  do 3 (split; [assumption |]). split; [exact given |]. split; [| split].
  - intros m at_m other. change (has (less (late l) (bit n)) m = false). rewrite has_less.
    now rewrite (lates m at_m other).
  - intros m at_m not. change (has (or (repaired l) (bit n)) m = false) in not. rewrite has_or in not.
    apply orb_false_iff in not as [not _]. now apply owed.
  - intros m. change (has (or (repair l) (bit n)) m = true -> has (asked (round l)) m = true ->
      has (or (repaired l) (bit n)) m = true /\ has (less (late l) (bit n)) m = false).
    rewrite !has_or, has_less, has_bit. destruct (Nat.eqb_spec n m) as [-> | other].
    + rewrite !orb_true_r, andb_false_r. intros. now split.
    + rewrite !orb_false_r, andb_true_r. apply sets.
Qed.

Lemma set_nodes_open : forall lt h m ns l,
  let l' := fold_left (fun l n => if has m n then set_one k l n else l) ns l in
  keeps l l' /\ (open_is lt h l -> open_is lt h l').
Proof.
  intros lt h m ns. induction ns as [| n ns IH]; intros l; cbv zeta in *; cbn [fold_left];
    [split; [now repeat split | trivial] |].
  set (l1 := if has m n then set_one k l n else l).
  assert (one : keeps l l1 /\ (open_is lt h l -> open_is lt h l1))
    by (subst l1; destruct (has m n); [apply set_one_open | split; [now repeat split | trivial]]).
  destruct (IH l1) as [keeps_ opens]. destruct one as [keeps1 opens1]. split; [| auto].
  unfold keeps, same_phase in *. intuition congruence.
Qed.

Lemma set_again_keeps : forall m l, keeps l (set_again k m at_ l).
Proof. intros m l. apply (set_nodes_open None None (less m (repaired l)) (seq 0 (nodes k)) l). Qed.

Lemma set_again_holds : forall m l, holds (set_again k m at_ l) = holds l.
Proof. intros m l. apply set_again_keeps. Qed.

Lemma set_again_good : forall lt h m l, holds l = true -> good lt h l -> good lt h (set_again k m at_ l).
Proof.
  intros lt h m l holding [is op]. pose proof (set_again_holds m l) as holding1. unfold set_again in *. cbv zeta in *.
  destruct (set_nodes_open lt h (less m (repaired l)) (seq 0 (nodes k)) l) as [ks opens].
  set (l1 := fold_left _ _ l) in *. destruct ks as ((k1 & k2 & k3) & k4 & k5 & k6 & k7 & k8).
  split.
  2: { intros opened. change (round_open l1 = true) in opened. rewrite k3 in opened. exact (opens (op opened)). }
  destruct (can_send l is holding (key_ttl at_ l1) (key_ttl at_ l1)) as (s & run & ph & (a & b & _ & _) & sets & extends).
  split; [exists s; split; [assumption |]; split |].
  - split; [intros _; change (phase_of s c = Holding (validity_end l1)); now rewrite k2 | congruence].
  - unfold sent_are. cbn. rewrite k5, k6, k7. auto.
  - intros _. change (at_ < validity_end l1). rewrite k2. now apply is.
Qed.

Definition opened (span : Z) (for_caller : bool) (l : lease) : lease := open_round k r e span for_caller at_ l.

Lemma open_quiet : forall span b l, catch_up (opened span b l) = catch_up l.
Proof.
  intros span b l. unfold opened, open_round. cbv zeta. destruct (tally_hopeless _ _); [| reflexivity].
  match goal with |- context [round_failed k r at_ ?l1] => now destruct (failed_sends l1) as (_ & _ & _ & -> & _) end.
Qed.

Lemma open_good : forall span b l, loose l -> holds l = true -> catch_up l = none -> good None None (opened span b l).
Proof.
  intros span b l is holding quiet. unfold opened, open_round. cbv zeta. set (asks_ := tally_open _ _).
  assert (sends_ := is). destruct sends_ as ((s & run & (ph & ph') & se) & inside_).
  destruct (tally_hopeless _ _).
  - apply failed_good. split; [| exact inside_]. exists s. split; [assumption |].
    split; [split; [exact ph | intros over; change (holds l = false) in over; congruence] | exact se].
  - destruct (can_send l is holding 0 span) as (s' & run' & ph1 & (_ & b0 & d & e0) & _ & extends). split.
    + split; [exists s' | exact inside_]. split; [assumption |]. split.
      * split; [intros _; exact ph1 | intros over; change (holds l = false) in over; congruence].
      * split; [intros _; exact extends | now split].
    + intros _. exists (now s0). split; [reflexivity |]. split; [lia |]. split; [now split |].
      assert (asked_ : forall n, has (asked asks_) n = true -> has (ready e) n = true /\ has (repair l) n = false /\
        (n < nodes k)%nat).
      { intros n at_n. subst asks_. cbn in at_n. autorewrite with has in at_n.
        rewrite !andb_true_iff, negb_true_iff, Nat.ltb_lt in at_n. tauto. }
      assert (pending_ : forall n, has (pending asks_) n = true -> has (asked asks_) n = true)
        by (intros n; rewrite has_pending; now intros [? _]%andb_true_iff).
      split; [intros n at_n; now rewrite has_none in at_n |]. split; [| split].
      * intros n at_n _. change (has (less (all (nodes k)) (asked asks_)) n = false). rewrite has_less, (pending_ n at_n).
        apply andb_false_r.
      * intros n at_n _. change (has (catch_up l) n = false /\ owes_only o n (extend_of c (now s0) span) /\
          (None = Some n -> vote_in (Classic.votes s0) n (extend_of c (now s0) span))). rewrite quiet, has_none.
        split; [reflexivity |]. split; [| discriminate]. left.
        destruct (asked_ n (pending_ n at_n)) as (is_ready & _). destruct (o n) eqn:owing; [| reflexivity].
        rewrite (not_owing n) in is_ready; [discriminate | congruence].
      * intros n at_n asks_n. exfalso. change (has (repair l) n = true) in at_n. destruct (asked_ n asks_n).
        intuition congruence.
Qed.

(* ---- a round is judged ---- *)

(* Until nodes that are late get the key, at the end of a step, none is asked to extend it late. *)
Definition fine (l : lease) : Prop := good None None l /\ catch_up l = none.

Lemma fine_by : forall l l', good None None l' -> same_sends l l' -> catch_up l = none -> fine l'.
Proof. intros l l' is (_ & _ & _ & same_ & _) quiet. split; [assumption | congruence]. Qed.

Lemma same_fine : forall l l', same l l' -> fine l -> fine l'.
Proof. intros l l' same_ [is quiet]. eapply fine_by; [eapply same_good | apply same_ |]; eassumption. Qed.

Lemma lose_fine : forall l, fine l -> fine (lose l).
Proof. intros l [[[is _] _] quiet]. eapply fine_by; [now apply lose_good | apply lose_sends | assumption]. Qed.

Lemma failed_fine : forall l, fine l -> fine (round_failed k r at_ l).
Proof. intros l [[is _] quiet]. eapply fine_by; [now apply failed_good | apply failed_sends | assumption]. Qed.

Lemma set_again_fine : forall m l, holds l = true -> fine l -> fine (set_again k m at_ l).
Proof.
  intros m l holding [is quiet]. split; [now apply set_again_good |].
  destruct (set_again_keeps m l) as (_ & _ & _ & _ & _ & ->). assumption.
Qed.

Lemma open_fine : forall span b l, loose l -> holds l = true -> catch_up l = none -> fine (opened span b l).
Proof. intros span b l is holding quiet. split; [now apply open_good | now rewrite open_quiet]. Qed.

Lemma close_fine : forall l, fine l -> fine (l <| round_open := false |>).
Proof.
  intros l [[is _] quiet]. split; [eapply closed_good; [exact is | | | | |]; repeat split | exact quiet].
Qed.

Lemma open_holds : forall lt h l, good lt h l -> round_open l = true -> holds l = true.
Proof.
  intros lt h l [[(s & _ & (_ & ph) & _) _] _] opened_. destruct (holds l); [reflexivity |].
  destruct (ph eq_refl). congruence.
Qed.

(* This is where a lease is prolonged: by a majority of this round, inside its validity. *)
Lemma prolong_good : forall lt h l, good lt h l -> round_open l = true -> tally_won (quorum k) (round l) = true ->
  good lt h (prolong k l).
Proof.
  intros lt h l is opened_ won. pose proof (open_holds _ _ _ is opened_) as holding.
  destruct is as [[(s & run & (ph & _) & se) inside_] op]. pose proof (op opened_) as (t & read & past & _ & given & _).
  specialize (ph holding). specialize (inside_ holding).
  assert (given' : forall n, has (granted (round l)) n = true ->
    (n < nodes k)%nat /\ vote_in (Classic.votes s) n (extend_of c t (round_ttl l)))
    by (rewrite (runs_votes _ _ run); exact given).
  destruct (can_prolong s (validity_end l) t (round_ttl l) (round l) ph) as (s' & run' & ph' & same_sent);
    rewrite ?(runs_now _ _ run); auto.
  assert (ends_ : validity_end (prolong k l) =
    Z.max (validity_end l) (client_clock y c t + round_ttl l - drift k (round_ttl l))).
  { unfold prolong. cbv zeta. rewrite read. destruct (_ <? _) eqn:more; [apply Z.ltb_lt in more | apply Z.ltb_ge in more];
      cbn; lia. }
  assert (rest : holds (prolong k l) = holds l /\ round_open (prolong k l) = round_open l /\ same_sends l (prolong k l) /\
    same_round l (prolong k l) /\ unlock (prolong k l) = unlock l)
    by (unfold prolong; cbv zeta; destruct (_ <? _); repeat split).
  destruct rest as (r1 & r2 & (b1 & b2 & b3 & b4 & b5) & (c1 & c2 & c3 & c4 & c5) & d).
  unfold good, loose, reached, phase_is, sent_are, open_is. rewrite r1, r2, b1, b2, b3, b4, b5, c1, c2, c3, c4, c5, d, ends_.
  split; [split; [| intros _; lia] | exact op]. exists s'. split; [eauto using runs_on |].
  split; [split; [intros _; exact ph' | congruence] |]. rewrite same_sent. exact se.
Qed.

Lemma report_same : forall l, holds l = true -> same l (report_won k r at_ l).
Proof.
  intros l holding. unfold report_won. cbv zeta.
  match goal with |- same l (if ?b then schedule_renewal r ?t at_ ?l1 else _) =>
    assert (frame : same l l1); [| destruct b; [eapply same_on; [exact frame | apply schedule_same] | exact frame]] end.
  destruct (by_caller _), (stage l); repeat split; exact (eq_sym holding).
Qed.

Lemma won_fine : forall l, fine l -> round_open l = true -> tally_won (quorum k) (round l) = true ->
  fine (round_won k r at_ l).
Proof.
  intros l [is quiet] opened_ won. unfold round_won. cbv zeta.
  match goal with |- context [prolong k ?x] => set (l1 := x) end.
  assert (frame : same l l1) by repeat split.
  pose proof (prolong_good None None l1 (same_good _ _ _ _ frame is) opened_ won) as is1.
  assert (open1 : round_open (prolong k l1) = true) by (unfold prolong; cbv zeta; destruct (_ <? _); exact opened_).
  pose proof (open_holds _ _ _ is1 open1) as holding. pose proof (report_same _ holding) as same_.
  apply set_again_fine; [destruct same_ as ((-> & _) & _); exact holding |].
  apply (same_fine (prolong k l1)); [assumption |]. split; [assumption |].
  unfold prolong. cbv zeta. destruct (_ <? _); exact quiet.
Qed.

Lemma regains_fine : forall l, fine l -> round_open l = true ->
  fine (fst (regains k at_ l)).
Proof.
  intros l [is quiet] opened_. unfold regains. cbv zeta. destruct (_ || _); [now split |]. cbn [fst].
  pose proof (open_holds _ _ _ is opened_) as holding.
  set (never := less (absent (round l)) (gone l)). pose proof (set_again_good _ _ never l holding is) as is1.
  destruct (set_again_keeps never l) as ((_ & _ & open1) & _ & _ & _ & _ & quiet1).
  set (l1 := set_again k never at_ l) in *. clearbody l1. split; [| change (catch_up l1 = none); congruence].
  destruct is1 as [is1 op]. split; [exact is1 |]. intros _.
  destruct (op (eq_trans open1 opened_)) as (t & read & past & fresh & given & lates & owed & sets).
  exists t. do 3 (split; [assumption |]). split; [exact given |].
  assert (pending_ : forall n, has (pending ((round l1) <| absent := less (absent (round l1)) (repair l1) |>t)) n = true ->
    has (pending (round l1)) n = true \/ (has (repaired l1) n = true /\ has (late l1) n = false)).
  { intros n. rewrite !has_pending. cbn. rewrite has_less.
    destruct (has (asked (round l1)) n) eqn:asked_; [| discriminate].
    destruct (has (repair l1) n) eqn:set_; [right; now apply sets |]. cbn [negb]. rewrite andb_true_r. now intros; left. }
  split; [| split; [| exact sets]].
  - intros n at_n other. destruct (pending_ n at_n) as [before | [_ ?]]; [now apply lates | assumption].
  - intros n at_n not. destruct (pending_ n at_n) as [before | [is_set _]]; [now apply owed |].
    change (has (repaired l1) n = false) in not. congruence.
Qed.

Lemma judge_fine : forall l, fine l -> round_open l = true -> fine (judge k r e at_ l).
Proof.
  intros l is opened_. pose proof (open_holds _ _ _ (proj1 is) opened_) as holding. unfold judge. cbv zeta.
  destruct (round_proven l); [now apply set_again_fine |].
  destruct (is_proof k l) eqn:proof.
  { apply won_fine; try assumption. unfold is_proof in proof. now apply andb_true_iff in proof. }
  destruct (majority_gone _ _); [now apply lose_fine |].
  destruct (_ && _).
  - pose proof (regains_fine l is opened_) as is1. destruct (regains k at_ l) as [l1 goes_on]. cbn [fst] in is1.
    destruct goes_on; [assumption | now apply failed_fine].
  - destruct (is_none _); [now apply failed_fine | assumption].
Qed.

Lemma judge_round_fine : forall l, fine l -> round_open l = true -> fine (judge_round k r e at_ l).
Proof.
  intros l is opened_. unfold judge_round. cbv zeta. pose proof (judge_fine l is opened_).
  destruct (is_none _); [now apply close_fine | assumption].
Qed.

(* ---- events ---- *)

Lemma note_key_good : forall here n v l, good None here l -> repair l = none ->
  good (match v with Failed => Some n | _ => None end) here (note_key k e n v at_ l).
Proof.
  intros here n v l is nothing. unfold note_key. cbv zeta. destruct v; [exact is | | | | exact is |].
  - eapply same_good; [| exact is]. repeat split.
  - destruct (_ && _) eqn:first; [| eapply same_good; [| exact is]; repeat split].
    apply andb_true_iff in first as [first _]. apply andb_true_iff in first as [_ closed]. apply negb_true_iff in closed.
    eapply (closed_good _ _ l); [apply is | | | exact closed | |]; repeat split.
  - eapply same_good; [| exact is]. repeat split.
  - destruct (has (ready e) n).
    + destruct is as [is op]. split; [exact is |]. intros opened_.
      destruct (op opened_) as (t & read & past & fresh & given & lates & rest). exists t.
      do 3 (split; [assumption |]). split; [exact given |]. split; [| exact rest]. intros m at_m _. now apply lates.
    + destruct is as [is op]. split; [exact is |]. intros opened_.
      destruct (op opened_) as (t & read & past & fresh & given & lates & owed & _). exists t.
      do 3 (split; [assumption |]). split; [exact given |]. split; [| split; [exact owed |]].
      * intros m at_m other. change (has (or (late l) (bit n)) m = false).
        rewrite has_or, has_bit, (lates m at_m); [| discriminate].
        destruct (Nat.eqb_spec n m); [congruence | reflexivity].
      * intros m at_m. change (has (repair l) m = true) in at_m. rewrite nothing, has_none in at_m. discriminate.
Qed.

Lemma note_key_sends : forall n v l, same_sends l (note_key k e n v at_ l).
Proof. intros n v l. unfold note_key. cbv zeta. destruct v; try destruct (_ && _); try destruct (has _ _); repeat split. Qed.

Lemma good_forgets : forall here l, good None here l -> good None None l.
Proof.
  intros here l [is op]. split; [exact is |]. intros opened_.
  destruct (op opened_) as (t & read & past & fresh & given & lates & owed & sets). exists t.
  do 5 (split; [assumption |]). split; [| exact sets]. intros n at_n not. destruct (owed n at_n not) as (? & ? & _).
  split; [assumption |]. split; [assumption | discriminate].
Qed.

Lemma regained_fine : forall here l, good None here l -> catch_up l = none -> round_open l = true ->
  fine (regained k r e at_ l).
Proof.
  intros here l is quiet opened_. pose proof (open_holds _ _ _ is opened_). unfold regained. cbv zeta.
  destruct (_ && _); [apply open_fine; [apply is | assumption | assumption] |].
  split; [now apply (good_forgets here) | assumption].
Qed.

(* A vote is counted for the request that its node owed. *)
Lemma counted_fine : forall n v l,
  good (match v with Failed => Some n | _ => None end) (match v with Granted => Some n | _ => None end) l ->
  catch_up l = none -> round_open l = true -> is_regained n v l = false -> takes (nodes k) (round l) n v = true ->
  fine (l <| round := tally_vote (round l) n v |>).
Proof.
  intros n v l [is op] quiet opened_ not taken. split; [| exact quiet]. split; [exact is |]. intros _.
  destruct (op opened_) as (t & read & past & fresh & given & lates & owed & sets). exists t.
  do 3 (split; [assumption |]). unfold takes in taken.
  apply andb_true_iff in taken as [taken some]. apply andb_true_iff in taken as [below at_n]. apply Nat.ltb_lt in below.
  assert (others : forall m, has (pending (tally_vote (round l) n v)) m = true -> has (pending (round l)) m = true /\
    m <> n).
  { intros m at_m. apply vote_pending in at_m as [? [-> | ?]]; [discriminate | now split]. }
  cbn [round changed repaired late catch_up repair round_ttl]. split; [| split; [| split]].
  - intros m at_m. apply vote_granted in at_m as [? | [-> ->]]; [now apply given |]. split; [assumption |].
    apply (owed n at_n); [| reflexivity]. unfold is_regained in not. rewrite opened_, has_and, at_n in not.
    now destruct (has (repaired l) n).
  - intros m at_m _. destruct (others m at_m) as [before differs]. apply lates; [assumption |]. destruct v; congruence.
  - intros m at_m is_not. destruct (others m at_m) as [before differs]. destruct (owed m before is_not) as (? & ? & _).
    split; [assumption |]. split; [assumption | discriminate].
  - intros m at_m asked_. apply sets; [assumption |]. destruct v; exact asked_.
Qed.

Lemma uncounted_fine : forall n v l,
  good (match v with Failed => Some n | _ => None end) (match v with Granted => Some n | _ => None end) l ->
  catch_up l = none -> (n < nodes k)%nat -> round_open l && takes (nodes k) (round l) n v = false -> fine l.
Proof.
  intros n v l [is op] quiet below not. split; [| exact quiet].
  apply (good_forgets (match v with Granted => Some n | _ => None end)).
  split; [exact is |]. intros opened_. rewrite opened_ in not. cbn [andb] in not.
  destruct (op opened_) as (t & read & past & fresh & given & lates & rest). exists t.
  do 4 (split; [assumption |]). split; [| exact rest]. intros m at_m _. apply lates; [assumption |].
  destruct v; try discriminate. intros same_. inversion same_; subst m. unfold takes in not.
  apply Nat.ltb_lt in below. rewrite below, at_m in not. discriminate.
Qed.

Lemma vote_fine : forall n v l, good None (match v with Granted => Some n | _ => None end) l ->
  catch_up l = none -> repair l = none -> fine (vote k r e n v at_ l).
Proof.
  intros n v l is quiet nothing. unfold vote. destruct (_ <=? _)%nat eqn:beyond.
  { split; [eapply good_forgets; exact is | assumption]. }
  apply Nat.leb_gt in beyond. cbv zeta. set (l1 := if holds l then _ else l).
  assert (is1 : good (match v with Failed => Some n | _ => None end) (match v with Granted => Some n | _ => None end) l1 /\
    catch_up l1 = none).
  { subst l1. destruct (holds l) eqn:holding.
    - split; [now apply note_key_good |]. destruct (note_key_sends n v l) as (_ & _ & _ & -> & _). assumption.
    - split; [| assumption]. apply good_closed; [apply is |]. destruct (round_open l) eqn:opened_; [| reflexivity].
      pose proof (open_holds _ _ _ is opened_). congruence. }
  clearbody l1. destruct is1 as [is1 quiet1]. destruct (is_regained n v l1) eqn:regain.
  - unfold is_regained in regain. apply andb_true_iff in regain as [opened_ _].
    apply andb_true_iff in opened_ as [opened_ granted_]. destruct v; try discriminate.
    eapply regained_fine; eassumption.
  - destruct (_ && _) eqn:taken.
    + apply andb_true_iff in taken as [opened_ taken]. apply judge_round_fine; [now apply counted_fine | exact opened_].
    + pose proof (uncounted_fine n v l1 is1 quiet1 beyond taken). destruct v; try assumption.
      destruct (holds l1) eqn:holding; [| assumption]. destruct (round_open l1); [assumption |]. now apply set_again_fine.
Qed.

Lemma count_unlocked_sends : forall l, same_sends l (count_unlocked k l) /\ round_open (count_unlocked k l) = round_open l /\
  (holds l = false -> holds (count_unlocked k l) = false).
Proof. intros l. unfold count_unlocked. cbv zeta. destruct (by_list k l); repeat split; auto. Qed.

Lemma unlocked_fine : forall l l', fine l -> holds l' = false -> round_open l' = false -> same_sends l l' ->
  fine (count_unlocked k l').
Proof.
  intros l l' [is quiet] over closed sends_. destruct (count_unlocked_sends l') as (s1 & op & ho).
  assert (sends1 : same_sends l (count_unlocked k l')) by (unfold same_sends in *; intuition congruence).
  apply (fine_by l); [| assumption | assumption].
  apply (over_good _ _ l); [apply is | now apply ho | congruence | assumption].
Qed.

Lemma releasing_over : forall l, fine l -> is_releasing l = true -> holds l = false /\ round_open l = false.
Proof.
  intros l [is _] releasing. assert (over : holds l = false) by (unfold is_releasing, holds in *; now destruct (stage l)).
  split; [assumption |]. destruct (round_open l) eqn:opened_; [| reflexivity].
  pose proof (open_holds _ _ _ is opened_). congruence.
Qed.

Lemma let_go_fine : forall l, fine l -> fine (let_go k at_ l).
Proof.
  intros l is. unfold let_go. cbv zeta. destruct (stage l) eqn:st; try assumption;
    (match goal with |- fine (count_unlocked k (changed _ (changed _ (changed _ (changed _ (drop_rounds ?x)))))) =>
      destruct (drop_sends x) as (e1 & e2 & e3 & e4 & e5) end;
     apply (unlocked_fine l); [assumption | reflexivity | reflexivity |];
     unfold same_sends; cbn [extend extend_ttl repair catch_up repair_ttl changed]; rewrite e1, e2, e3, e4, e5;
     destruct (holds l); cbn [stage changed]; rewrite ?st; repeat split).
Qed.

Lemma take_fine : forall l,
  good None (match what e with Answers n Granted => Some n | _ => None end) l -> catch_up l = none -> repair l = none ->
  fine (take_event k r e at_ l).
Proof.
  intros l is quiet nothing.
  assert (is_fine : fine l) by (split;
    [now apply (good_forgets (match what e with Answers n Granted => Some n | _ => None end)) | assumption]).
  unfold take_event. destruct (what e) as [| n v | n v | span | |].
  - assumption.
  - apply vote_fine; [destruct v; exact is | assumption | assumption].
  - unfold note_unlocked. destruct (_ && _) eqn:taken; [| assumption]. apply andb_true_iff in taken as [releasing _].
    destruct (releasing_over l is_fine releasing). apply (unlocked_fine l); try assumption. repeat split.
  - unfold want_extension. destruct (holds l); (eapply same_fine; [| exact is_fine]); repeat split.
  - now apply let_go_fine.
  - assumption.
Qed.

Lemma close_round_fine : forall l, fine l -> fine (close_late_round k r e at_ l).
Proof.
  intros l is. unfold close_late_round. destruct (round_open l) eqn:opened_; cbn [negb orb]; [| assumption].
  destruct (_ <? _); [assumption |]. destruct (_ && _).
  - destruct (renew_at l); [assumption |]. eapply same_fine; [apply unsure_same | assumption].
  - cbv zeta. apply close_fine. set (l1 := changed _ l).
    assert (is1 : fine l1).
    { destruct is as [[is op] quiet]. split; [| exact quiet]. split; [exact is |]. intros _.
      destruct (op opened_) as (t & read & past & fresh & given & _ & _ & sets). exists t.
      do 3 (split; [assumption |]). split; [exact given |]. split; [| split; [| exact sets]];
        intros n at_n; change (has (pending (tally_close (round l))) n = true) in at_n; rewrite close_pending in at_n;
          discriminate. }
    destruct (round_proven l1); [assumption |].
    destruct (is_proof k l1); [now apply judge_round_fine | now apply failed_fine].
Qed.

Lemma close_release_fine : forall l, fine l -> fine (close_late_release k at_ l).
Proof.
  intros l is. unfold close_late_release. destruct (is_releasing l) eqn:releasing; cbn [negb orb]; [| assumption].
  destruct (_ <? _); [assumption |]. destruct (releasing_over l is releasing).
  apply (unlocked_fine l); try assumption. repeat split.
Qed.

Lemma next_fine : forall l, fine l -> holds l = true -> fine (next_round k r e at_ l).
Proof.
  intros l is holding. unfold next_round. destruct (is_in_time _ _ _); [assumption |]. destruct (negb _).
  - cbv zeta. set (l1 := changed _ l). assert (is1 : fine l1) by (apply (same_fine l); [repeat split | assumption]).
    destruct (beyond_limits _ _ _ _); [eapply same_fine; [| exact is1]; repeat split |].
    apply open_fine; [apply is1 | exact holding | apply is1].
  - destruct (_ && _); [| assumption]. unfold renew.
    destruct (_ && _); [eapply same_fine; [apply retry_same | assumption] |].
    cbv zeta. set (l1 := changed _ l). assert (is1 : fine l1) by (apply (same_fine l); [repeat split | assumption]).
    destruct (_ && _); [assumption |]. set (l2 := changed _ l1).
    assert (is2 : fine l2) by (apply (same_fine l1); [repeat split | assumption]).
    destruct (_ =? _); [assumption |]. apply open_fine; [apply is2 | exact holding | apply is2].
Qed.

(* A node that is late owes no answer to the round: its late extension is not mistaken for one of the round. *)
Lemma give_good : forall l, fine l -> good None None (give_to_late k e at_ l).
Proof.
  intros l0 is0. unfold give_to_late. cbv zeta. set (l := if _ <=? at_ then _ else l0).
  assert (is : fine l) by (subst l; destruct (_ <=? at_); [apply (same_fine l0); [repeat split |] |]; assumption).
  clearbody l. set (given := less _ _). destruct (_ || _) eqn:rests; [apply is |].
  assert (holding : holds l = true) by (destruct (holds l); [reflexivity | discriminate]).
  apply set_again_good; [exact holding |]. destruct is as [[is op] quiet]. split.
  - destruct (can_send l is holding 0 (repair_ttl l)) as (s & run & ph & (a & b & d & _) & _ & extends).
    split; [| apply is]. exists s. split; [assumption |].
    split; [split; [intros _; exact ph | intros over; change (holds l = false) in over; congruence] |].
    split; [exact a |]. split; [exact b |]. split; [exact d | intros _; exact extends].
  - intros opened_. destruct (op opened_) as (t & read & past & fresh & granted_ & lates & owed & sets). exists t.
    do 3 (split; [assumption |]). split; [exact granted_ |].
    assert (not_given : forall n, has (late l) n = false -> has given n = false).
    { intros n not. subst given. now rewrite has_less, has_and, not. }
    split; [| split].
    + intros n at_n other. change (has (less (late l) given) n = false). now rewrite has_less, (lates n at_n other).
    + intros n at_n not. change (has (less (repaired l) given) n = false) in not.
      change (has (and given (may_have l)) n = false /\ owes_only o n (extend_of c t (round_ttl l)) /\
        (None = Some n -> vote_in (Classic.votes s0) n (extend_of c t (round_ttl l)))).
      pose proof (not_given n (lates n at_n ltac:(discriminate))) as spared.
      rewrite has_less, spared, andb_true_r in not. rewrite has_and, spared. split; [reflexivity | now apply owed].
    + intros n at_n asked_. destruct (sets n at_n asked_) as [is_set not].
      change (has (less (repaired l) given) n = true /\ has (less (late l) given) n = false).
      now rewrite !has_less, not, (not_given n not), is_set.
Qed.

Lemma wake_same : forall l v, same l (l <| wake := v |>).
Proof. repeat split. Qed.

Lemma lease_step_good : forall l l1, begin_step k r e at_ (cleared_lease l) = l1 ->
  good None (match what e with Answers n Granted => Some n | _ => None end) l1 -> catch_up l1 = none -> repair l1 = none ->
  good None None (lease_step k r e at_ l).
Proof.
  intros l l1 begun is quiet nothing. unfold lease_step. rewrite begun. cbv zeta.
  eapply same_good; [apply wake_same |].
  apply give_good. pose proof (take_fine l1 is quiet nothing) as is1. set (l2 := take_event k r e at_ l1) in *. clearbody l2.
  set (l3 := match what e with Answers _ _ => l2 | _ => close_late_round k r e at_ l2 end).
  assert (is3 : fine l3) by (subst l3; destruct (what e); try apply close_round_fine; assumption). clearbody l3.
  set (l4 := match what e with Unlocks _ _ => l3 | _ => close_late_release k at_ l3 end).
  assert (is4 : fine l4) by (subst l4; destruct (what e); try apply close_release_fine; assumption). clearbody l4.
  destruct (holds l4) eqn:holding; [now apply next_fine | assumption].
Qed.

(* ---- the beginning of a step ---- *)

Lemma cleared_reached : forall l, phase_is l s0 -> reached (cleared_lease l).
Proof.
  intros l ph. exists s0. split; [apply runs_not |]. split; [exact ph |]. repeat split; intros some; now destruct some.
Qed.

(* The time is judged before the event. *)
Lemma judged_good : forall here l, reached l -> (round_open l = true -> open_is None here l) ->
  good None here (if holds l && (lost_at r l <=? at_) then lose l else l).
Proof.
  intros here l is op. destruct (_ && _) eqn:ends_; [now apply lose_good |]. split; [split; [exact is |] | exact op].
  intros holding. rewrite holding in ends_. cbn [andb] in ends_. apply Z.leb_gt in ends_.
  pose proof (margins settings c). unfold lost_at, r in *. lia.
Qed.

Lemma judged_sends : forall l, same_sends l (if holds l && (lost_at r l <=? at_) then lose l else l).
Proof. intros l. destruct (_ && _); [apply lose_sends | repeat split]. Qed.

Lemma begins_good : forall here l, phase_is l s0 -> (round_open l = true -> open_is None here (cleared_lease l)) ->
  match what e with Starts _ _ _ _ => False | _ => True end ->
  let l1 := begin_step k r e at_ (cleared_lease l) in good None here l1 /\ catch_up l1 = none /\ repair l1 = none.
Proof.
  intros here l ph op goes_on. unfold begin_step. cbv zeta.
  assert (no_start : match what e, stage (cleared_lease l) with
    | Starts until asks grants denials, None_yet => start_lease k r until asks grants denials at_ (cleared_lease l)
    | _, _ => cleared_lease l end = cleared_lease l) by (destruct (what e); [contradiction | | | | |]; reflexivity).
  rewrite no_start. destruct (judged_sends (cleared_lease l)) as (_ & _ & -> & -> & _).
  split; [| now split]. apply judged_good; [now apply cleared_reached | exact op].
Qed.

Lemma starts_good : forall upto asks_ grants_ denials_, what e = Starts upto asks_ grants_ denials_ ->
  phase_of s0 c = Holding upto ->
  let l1 := begin_step k r e at_ (cleared_lease fresh_lease) in
  good None None l1 /\ catch_up l1 = none /\ repair l1 = none.
Proof.
  intros upto asks_ grants_ denials_ is_start ph. unfold begin_step. rewrite is_start.
  cbn [stage cleared_lease changed fresh_lease].
  cbv zeta. set (l := start_lease k r upto asks_ grants_ denials_ at_ _).
  assert (started : round_open l = false /\ reached l /\ catch_up l = none /\ repair l = none).
  { subst l. unfold start_lease. cbv zeta. set (cut := if _ && _ then _ else upto).
    assert (shorter : cut <= upto) by (subst cut; destruct (_ && _) eqn:limit;
      [apply andb_true_iff in limit as [_ limit%Z.ltb_lt] |]; lia).
    destruct (_ <=? _).
    - split; [reflexivity |]. split; [| now split]. destruct (can_release s0) as (s & run & over & _).
      exists s. split; [assumption |]. split; [split; [discriminate | now split] |].
      repeat split; intros some; now destruct some.
    - match goal with |- context [schedule_renewal r at_ at_ ?l1] =>
        destruct (schedule_same at_ l1) as ((h1 & v1 & o1) & (x1 & x2 & x3 & x4 & x5) & _ & u1) end.
      rewrite o1, x3, x4. split; [reflexivity |]. split; [| now split].
      destruct (can_cut s0 upto cut ph shorter) as (s & run & ph' & _). exists s. split; [assumption |].
      unfold phase_is, sent_are. rewrite h1, v1, o1, x1, x2, x3, x4, x5, u1.
      split; [split; [intros _; exact ph' | discriminate] |]. repeat split; intros some; now destruct some. }
  destruct started as (closed & is & quiet & nothing). destruct (judged_sends l) as (_ & _ & -> & -> & _).
  split; [| now split]. apply judged_good; [assumption | congruence].
Qed.

(* ---- and its end: the requests go out ---- *)

Lemma settles : forall l o', good None None l -> asks (lease_requests c (now s0) l) o o' -> round_open l = true ->
  exists t, round_t1 l = client_clock y c t /\ t <= now s0 /\
    (forall n, has (granted (round l)) n = true -> (n < nodes k)%nat /\
      vote_in (Classic.votes s0) n (extend_of c t (round_ttl l))) /\
    (forall n, has (pending (round l)) n = true -> has (late l) n = false) /\
    (forall n, has (pending (round l)) n = true -> has (repaired l) n = false ->
      owes_only o' n (extend_of c t (round_ttl l))).
Proof.
  intros l o' [_ op] asked_ opened_. destruct (op opened_) as (t & read & past & fresh & given & lates & owed & sets).
  exists t. do 2 (split; [assumption |]). split; [exact given |].
  split; [intros n at_n; apply lates; [assumption | discriminate] |].
  intros n at_n not. destruct (owed n at_n not) as (spared & owes_n & _). unfold owes_only in *.
  destruct (asked_ n) as [-> | (_ & m & q & there & at_m & ->)]; [assumption | right]. f_equal.
  destruct there as [same_ | [same_ | [same_ | []]]]; inversion same_; subst m q; clear same_.
  - destruct (fresh (is_none_not _ _ at_m)) as [-> ->]. reflexivity.
  - destruct (sets n at_m) as [is_set _]; [rewrite has_pending in at_n; now apply andb_true_iff in at_n | congruence].
  - congruence.
Qed.

End Step.

(* ---- a machine between steps -------------------------------------------------------------------- *)

Definition lease_is (o : nat -> option request) (l : lease) (s : Classic.state) : Prop :=
  phase_is l s /\ (round_open l = true -> exists t, round_t1 l = client_clock y c t /\ t <= now s /\
    let q := extend_of c t (round_ttl l) in
    (forall n, has (granted (round l)) n = true -> (n < nodes k)%nat /\ vote_in (Classic.votes s) n q) /\
    (forall n, has (pending (round l)) n = true -> has (late l) n = false) /\
    (forall n, has (pending (round l)) n = true -> has (repaired l) n = false -> owes_only o n q)).

Definition machine_is (m : machine) (o : nat -> option request) (s : Classic.state) : Prop :=
  match m with
  | Tries a => attempt_is o (cleared a) s
  | Leased l => lease_is o l s
  end.

Lemma machine_stays : forall m o s s', phase_of s' c = phase_of s c -> now s <= now s' ->
  incl (Classic.votes s) (Classic.votes s') -> machine_is m o s -> machine_is m o s'.
Proof.
  intros m o s s' ph later_ more is. destruct m as [a | l]; cbn [machine_is] in *.
  - destruct is as (is & _ & _). split; [| split; intros some; now destruct some]. rewrite ph.
    destruct (state (cleared a)); auto.
    destruct is as (t & read & past & trying & _ & given & owed). exists t. split; [assumption |]. split; [lia |].
    split; [assumption |]. split; [intros some; now destruct some |]. split; [| assumption].
    intros n at_n. destruct (given n at_n). split; [assumption | now apply more].
  - destruct is as [is op]. split; [unfold phase_is in *; now rewrite ph |]. intros opened_.
    destruct (op opened_) as (t & read & past & given & rest). exists t. split; [assumption |]. split; [lia |].
    split; [| exact rest]. intros n at_n. destruct (given n at_n). split; [assumption | now apply more].
Qed.

(* The step of a lease: what it was before, and that the vote is one for what the node owed. *)
Lemma lease_begins : forall o o1 e l s, lease_is o l s -> forgives o o1 ->
  match what e with
  | Answers n v => v = Granted -> exists q, o n = Some q /\ vote_in (Classic.votes s) n q
  | Starts _ _ _ _ => False
  | _ => True
  end ->
  round_open l = true -> open_is s o1 None (match what e with Answers n Granted => Some n | _ => None end) (cleared_lease l).
Proof.
  intros o o1 e l s [_ op] less_owed may opened_. destruct (op opened_) as (t & read & past & given & lates & owed).
  exists t.
  split; [assumption |]. split; [assumption |]. split; [intros some; now destruct some |]. split; [exact given |].
  split; [intros n at_n _; now apply lates |]. split.
  - intros n at_n not. split; [apply has_none |]. split.
    + change (owes_only o1 n (extend_of c t (round_ttl l))). unfold owes_only.
      destruct (owed n at_n not), (less_owed n); intuition congruence.
    + destruct (what e) as [| m v | | | |]; try discriminate. destruct v; try discriminate. intros same_.
      inversion same_; subst m.
      destruct (may eq_refl) as (q & owes_q & voted).
      change (vote_in (Classic.votes s) n (extend_of c t (round_ttl l))). destruct (owed n at_n not); congruence.
  - intros n at_n. change (has none n = true) in at_n. rewrite has_none in at_n. discriminate.
Qed.

End One.

(* ---- one move ----------------------------------------------------------------------------------- *)

(* What the proved system shows of the same moment. *)
Definition agrees (w : world) (s : Classic.state) : Prop :=
  now s = now (around w) /\ keys s = keys (around w) /\ Classic.votes s = Classic.votes (around w) /\
  incl (sent (around w)) (sent s) /\ forall c, machine_is c (machine_of w c) (owes w c) s.

Lemma sends_agrees : forall w c m requests release o s s',
  agrees w s -> runs c s s' -> machine_is c m o s' ->
  (forall b q, In (b, q) requests -> b <> none -> In q (sent s')) -> (release <> none -> In (delete_of c) (sent s')) ->
  agrees (sends w c m requests release o) s'.
Proof.
  intros w c m requests release o s s' (n & h & v & i & each) (_ & n' & h' & v' & i' & p') is asked_ released.
  unfold agrees, sends. cbn. repeat split; try congruence.
  - intros q there. apply in_app_iff in there as [there | there]; [| auto]. unfold not_empty in there.
    apply in_map_iff in there as ([b q'] & same_ & there). cbn in same_. subst q'. apply filter_In in there as [there some].
    assert (b <> none) by (intros ->; discriminate).
    apply in_app_iff in there as [there | [same_ | []]]; [eauto |]. inversion same_; subst. auto.
  - intros d. destruct (Nat.eq_dec d c) as [-> | other]; [now rewrite !update_same |].
    rewrite !update_other by assumption.
    apply (machine_stays d _ _ s); [now apply p' | lia | rewrite v'; apply incl_refl | apply each].
Qed.

Lemma outside_agrees : forall w e a s, is_outside e -> step y (around w) e = Some a -> agrees w s ->
  exists s', follows y s s' /\ agrees {| around := a; machine_of := machine_of w; owes := owes w |} s'.
Proof.
  intros w e a s out happens (n & h & v & i & each).
  set (s' := {| now := now a; keys := keys a; phase_of := phase_of s; sent := sent s; Classic.votes := Classic.votes a |}).
  assert (possible : step y s e = Some s' /\ now s <= now a /\ incl (Classic.votes s) (Classic.votes a) /\
    sent a = sent (around w)).
  { subst s'. destruct e as [span | | n0 m q | m x | m x | | | | | |]; try contradiction; cbn [step] in *.
    - destruct (0 <=? span) eqn:forward; [| discriminate]. inversion happens; subst a. cbn. unfold with_now.
      rewrite n, h, v. repeat split; [lia | apply incl_refl].
    - destruct (reaches y n0 m); [| discriminate]. cbn [andb] in *.
      destruct (existsb (request_eqb q) (sent (around w))) eqn:found; [| discriminate].
      assert (found' : existsb (request_eqb q) (sent s) = true)
        by (apply existsb_exists in found as (z & there & same_); apply existsb_exists; exists z; auto).
      rewrite found', n, h. destruct (serve _ _ _ _) as [held given]. inversion happens; subst a.
      destruct given; cbn; unfold with_vote, with_keys; cbn; rewrite n, h, v; repeat split;
        auto using incl_refl, incl_tl; lia.
    - rewrite n, h. destruct (keys (around w) m x); [| discriminate]. destruct (_ <=? _); [| discriminate].
      inversion happens; subst a. cbn. unfold with_keys. rewrite n, h, v. repeat split; [lia | apply incl_refl].
    - destruct (keeps_data y); [discriminate |]. inversion happens; subst a. cbn. unfold with_keys. rewrite n, h, v.
      repeat split; [lia | apply incl_refl]. }
  destruct possible as (possible & later_ & more & same_). exists s'.
  split; [eapply later; [apply at_once | exact possible] |].
  unfold agrees. cbn. rewrite same_. repeat split; auto. intros c. now apply (machine_stays c _ _ s).
Qed.

Lemma attempt_moves : forall w c a e o o' s,
  machine_of w c = Tries a -> attempt_may w c e -> forgives (owes w c) o ->
  let a' := attempt_step (terms_of c) e (reads w c) a in
  let requests := attempt_requests c (now (around w)) a' in
  asks requests o o' -> agrees w s -> exists s', follows y s s' /\ agrees (sends w c (Tries a') requests (release a') o') s'.
Proof.
  intros w c a e o o' s is may less_owed a' requests asked_ agree. pose proof agree as (n & h & v & i & each).
  pose proof (each c) as is_c. rewrite is in is_c.
  assert (evidence : forall m u, e = Vote m u -> u = Granted -> exists q, owes w c m = Some q /\
    vote_in c (Classic.votes s) m q)
    by (intros m u -> given; rewrite v; now apply may).
  destruct (attempt_step_is c (owes w c) o e (cleared a) s is_c less_owed evidence) as (s' & run & is').
  rewrite n in is'. change (attempt_step _ e _ (cleared a)) with a' in is'.
  exists s'. split; [apply run |]. destruct is' as (is' & acquires & releases).
  assert (now_ : now s' = now (around w)) by (rewrite (runs_now c _ _ run); exact n).
  apply (sends_agrees w c _ _ _ _ s s' agree run); [| | exact releases].
  - cbn [machine_is]. split; [| split; intros some; now destruct some].
    cbn [cleared changed state acquire t1 Attempt.votes win_end].
    assert (owed : forall m, o' m = o m \/ (acquire a' <> none /\ o' m = Some (set_of c (now s') (ttl (terms_of c))))).
    { intros m. destruct (asked_ m) as [-> | (_ & b & q & [same_ | []] & at_m & owing)]; [now left | right].
      inversion same_; subst b q. rewrite now_. split; [exact (is_none_not _ _ at_m) | exact owing]. }
    destruct (state a'); try exact is'.
    + destruct is' as (idle & nothing & none_owed). split; [exact idle |]. split; [reflexivity |].
      intros m. destruct (owed m) as [-> | [some _]]; [apply none_owed | contradiction].
    + destruct is' as (t & read & past & trying & fresh & given & owes_). exists t. do 3 (split; [assumption |]).
      split; [intros some; now destruct some |]. split; [exact given |]. intros m at_m. unfold owes_only in *.
      destruct (owed m) as [-> | [some ->]]; [now apply owes_ | right]. now rewrite (fresh some).
  - intros b q [same_ | []] some. inversion same_; subst b q. rewrite <- now_. now apply acquires.
Qed.

Lemma lease_moves : forall w c l1 o o' s,
  let requests := lease_requests c (now (around w)) l1 in
  agrees w s -> (exists s', runs c s s' /\ phase_is c l1 s' /\ sent_are c s l1 s') ->
  good c s o None None l1 -> asks requests o o' ->
  exists s', follows y s s' /\ agrees (sends w c (Leased l1) requests (unlock l1) o') s'.
Proof.
  intros w c l1 o o' s requests agree (s' & run & ph & se) is asked_. pose proof agree as (n & _).
  exists s'. split; [apply run |]. unfold requests in *. rewrite <- n in *.
  destruct se as (a & b & d & f). apply (sends_agrees w c _ _ _ _ s s' agree run); [| | exact b].
  - split; [exact ph |]. intros opened_. destruct (settles c s o l1 o' is asked_ opened_) as (t & rest). exists t.
    rewrite (runs_now c _ _ run), (runs_votes c _ _ run). exact rest.
  - intros m q there some. destruct there as [same_ | [same_ | [same_ | []]]]; inversion same_; subst; auto.
Qed.

Lemma moves_agree : forall w w' s, moves w w' -> agrees w s -> exists s', follows y s s' /\ agrees w' s'.
Proof.
  intros w w' s move agree. destruct move.
  - eapply outside_agrees; eassumption.
  - eapply attempt_moves; eassumption.
  - (* a lease begins *)
    pose proof agree as (n & _ & _ & _ & each). pose proof (each c) as is. rewrite H in is. destruct is as (is & _).
    cbn [cleared changed state] in is. rewrite H0 in is. unfold reads in *.
    destruct (starts_good c s o e _ _ _ _ H3 is) as (is1 & quiet & nothing).
    pose proof (lease_step_good c s o e H2 fresh_lease _ eq_refl) as step_. rewrite H3 in step_.
    specialize (step_ is1 quiet nothing). rewrite n in step_.
    eapply lease_moves; try eassumption. apply step_.
  - (* a step of a lease *)
    pose proof agree as (n & h & v & i & each). pose proof (each c) as is. rewrite H in is. cbn [machine_is] in is.
    destruct H1 as [not_owing may]. unfold reads in *.
    assert (may' : match what e with
      | Answers m u => u = Granted -> exists q, owes w c m = Some q /\ vote_in c (Classic.votes s) m q
      | Starts _ _ _ _ => False | _ => True end)
      by (destruct (what e); try exact I; [assumption | intros given; rewrite v; now apply may]).
    pose proof (lease_begins c (owes w c) o e l s is H0 may') as op.
    assert (goes_on : match what e with Starts _ _ _ _ => False | _ => True end) by (destruct (what e); auto).
    destruct (begins_good c s o e _ l (proj1 is) op goes_on) as (is1 & quiet & nothing).
    pose proof (lease_step_good c s o e not_owing l _ eq_refl is1 quiet nothing) as step_. rewrite n in step_.
    eapply lease_moves; try eassumption. apply step_.
  - (* rl_lease_void() *)
    pose proof agree as (n & _ & _ & _ & each). pose proof (each c) as is. rewrite H in is. destruct is as [[ph ph'] op].
    unfold void, reads. destruct (_ && _) eqn:cuts; [| exists s; split; [apply at_once |]].
    + apply andb_true_iff in cuts as [holding shorter]. apply Z.ltb_lt in shorter.
      destruct (can_cut c s _ (client_clock y c (now (around w))) (ph holding)) as (s' & run & ph1 & _); [lia |].
      exists s'. split; [apply run |].
      apply (sends_agrees w c _ [] none _ s s' agree run); [| contradiction | intros some; now destruct some].
      split; [split; [intros _; exact ph1 | intros over; change (holds l = false) in over; congruence] |].
      rewrite (runs_now c _ _ run), (runs_votes c _ _ run). exact op.
    + apply (sends_agrees w c _ [] none _ s s agree (runs_not c s)); [| contradiction | intros some; now destruct some].
      split; [now split | exact op].
  - (* rl_lease_disown() *)
    pose proof agree as (_ & _ & _ & _ & each). pose proof (each c) as is. rewrite H in is. exists s.
    split; [apply at_once |].
    apply (sends_agrees w c _ [] none _ s s agree (runs_not c s)); [exact is | contradiction | intros some;
      now destruct some].
Qed.

Lemma first_agrees : agrees resting initial.
Proof.
  unfold agrees, resting. cbn. repeat split; auto using incl_refl; intros some; now destruct some.
Qed.

Lemma reaches_agrees : forall w, code_reaches w -> exists s, reachable y s /\ agrees w s.
Proof.
  induction 1 as [| w w' _ (s & reached_ & agree) move].
  - exists initial. split; [apply at_first | apply first_agrees].
  - destruct (moves_agree w w' s move agree) as (s' & run & agree'). exists s'. split; [| assumption].
    eapply follows_reachable; eassumption.
Qed.

Lemma agrees_inside : forall w s c, agrees w s -> answers_held w c = inside y s c.
Proof.
  intros w s c (n & _ & _ & _ & each). pose proof (each c) as is. unfold answers_held, inside, reads. rewrite <- n.
  destruct (machine_of w c) as [a | l]; cbn [machine_is] in is.
  - destruct is as (is & _). cbn [cleared changed state win_end] in is. destruct (state a).
    + now destruct is as [-> _].
    + now destruct is as (t & _ & _ & -> & _).
    + now rewrite is.
    + now rewrite is.
  - destruct is as [[ph ph'] _]. unfold validity. destruct (holds l) eqn:holding; cbn [andb].
    + rewrite (ph eq_refl). destruct (client_clock y c (now s) <? validity_end l) eqn:valid; [| reflexivity].
      apply Z.ltb_lt in valid. apply Z.ltb_lt. lia.
    + now destruct (ph' eq_refl) as [-> _].
Qed.



End Code.

(* ---- the theorems ------------------------------------------------------------------------------- *)

(* At each moment of each run of the code, a run of the proved system has the same time, the same keys on the servers
   and the same votes, and the same clients are inside validity. *)
Theorem code_refines : forall y terms_of rules_of, has_settings y terms_of rules_of ->
  forall w, code_reaches y terms_of rules_of w ->
  exists s, reachable y s /\ now s = now (around w) /\ keys s = keys (around w) /\
    Classic.votes s = Classic.votes (around w) /\ forall c, answers_held y w c = inside y s c.
Proof.
  intros y terms_of rules_of settings w reached_.
  destruct (reaches_agrees y terms_of rules_of settings w reached_) as (s & is & agree).
  exists s. pose proof agree as (n & h & v & _). repeat split; auto. intros c. eapply agrees_inside; eassumption.
Qed.

(* So two clients that run the code never answer both that they hold a lock on the same resource. *)
Theorem code_excludes : forall y terms_of rules_of, has_settings y terms_of rules_of -> (forall a, Classic.holds a y) ->
  forall w, code_reaches y terms_of rules_of w ->
  forall c d x, answers_held y w c = true -> answers_held y w d = true ->
  In x (resources_of y c) -> In x (resources_of y d) -> c = d.
Proof.
  intros y terms_of rules_of settings assumed w reached_ c d x held_c held_d of_c of_d.
  destruct (code_refines y terms_of rules_of settings w reached_) as (s & is & _ & _ & _ & same_).
  apply (exclusion y assumed s is c d x); split; try assumption; now rewrite <- same_.
Qed.
