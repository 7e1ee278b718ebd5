(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: possible progress. From each reachable state in which a majority of the members is up, a run
   goes on that ends with a new lock. It is a run that could happen: nothing is said of what clients do. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedExclusion GuardedRuns.
Import ListNotations.
Open Scope Z_scope.

(* An intact body of each of a majority of the members, none superseded by what the others' records say. *)
Record is_up (y : system) (s : state) (up : list body) : Prop := {
  one_of_each : NoDup (map (member_of y) up);
  are_majority : (majority_of (members y) <= length up)%nat;
  all_intact : forall b, In b up -> life_of s b = Intact;
  all_current : forall b b', In b up -> In b' up -> (knows s b' (member_of y b) <= rank_of y b)%nat;
}.

(* Each server's clock passes every reading. *)
Definition server_clocks_go_on (y : system) : Prop := forall b z, exists n,
  forall m, (n <= m)%nat -> z <= server_clock y b (time_at y m).

(* After each moment there is one from which so many steps take less time than the validity of some TTL. *)
Definition rounds_fit (y : system) (steps : nat) : Prop := forall c n, exists m ttl, (n <= m)%nat /\ ttl <= ttl_max y /\
  forall i, (i <= steps)%nat -> client_clock y c (time_at y (m + i)) < validity_end y c m ttl.

Definition attempts_go_on (y : system) (x : resource) : Prop := forall n, exists c, (n <= c)%nat /\ resource_of y c = x.

(* Attempts that have not begun are left in each reachable state. *)
Lemma one_phase_changes : forall y s e s', act y s e = Some s' ->
  phase_of s' = phase_of s \/ exists c p, phase_of s' = update (phase_of s) c p.
Proof. intros y s e s' acts. destruct e; simpl in acts; take_apart acts; simpl; eauto. Qed.

Lemma some_have_not_begun : forall y s, reachable y s -> exists n, forall c, (n <= c)%nat -> phase_of s c = Idle.
Proof.
  induction 1 as [| s e s' reached [n idle] happens]; [exists 0%nat; reflexivity |].
  unfold step in happens. destruct (act y s e) as [u |] eqn:acts; [| discriminate]. injection happens as <-. simpl.
  destruct (one_phase_changes y s e u acts) as [-> | (c & p & ->)]; [eauto |].
  exists (Nat.max n (S c)). intros d late. rewrite update_other by lia. apply idle. lia.
Qed.

Lemma pick_first : forall l before_ after_,
  pick (before_ ++ l ++ after_) (seq (length before_) (length l)) = Some l.
Proof.
  induction l as [| o l IH]; intros before_ after_; [reflexivity |]. simpl.
  rewrite nth_error_app2, Nat.sub_diag by lia. simpl.
  specialize (IH (before_ ++ [o]) after_). rewrite app_length, Nat.add_1_r, <- app_assoc in IH. simpl in IH. now rewrite IH.
Qed.

Lemma above_all : forall (f : body -> Z) (l : list body), exists z, forall b, In b l -> f b < z.
Proof.
  intros f. induction l as [| b l [z above]]; [exists 0; contradiction |]. exists (Z.max z (f b + 1)).
  intros b' [<- | b'_in]; [lia |]. specialize (above b' b'_in). lia.
Qed.

Section Progress.
Variable y : system.

(* A run goes on in which nobody dies, learns of an incarnation or acquires a lock. *)
Record goes_on (s t : state) : Prop := {
  goes : follows y s t;
  same_lives : life_of t = life_of s;
  same_knowledge : forall b, knows t b = knows s b;
  same_grants : grants t = grants s;
}.

Lemma stays : forall s, goes_on s s.
Proof. intros s. constructor; auto. apply at_once. Qed.

Lemma goes_further : forall s t u, goes_on s t -> goes_on t u -> goes_on s u.
Proof.
  intros s t u [f l k g] [f' l' k' g']. constructor; try congruence. eauto using follows_further.
Qed.

Lemma goes_by : forall s t e u, goes_on s t -> act y t e = Some u -> life_of u = life_of t ->
  (forall b, knows u b = knows t b) -> grants u = grants t -> goes_on s (next u).
Proof.
  intros s t e u [f l k g] acts lives known granted. constructor; simpl; try congruence.
  apply later with t e; [assumption |]. unfold step. now rewrite acts.
Qed.

Lemma same_at : forall A (f : nat -> A) i j, update f i (f i) j = f j.
Proof. intros A f i j. destruct (Nat.eq_dec j i) as [-> |]; [apply update_same | now apply update_other]. Qed.

(* ---- waiting ----------------------------------------------------------------------------------- *)

Lemma can_wait : forall n s, exists t, goes_on s t /\ moment_now t = (moment_now s + n)%nat /\ keys t = keys s /\
  phase_of t = phase_of s.
Proof.
  induction n as [| n IH]; intros s; [exists s; rewrite Nat.add_0_r; auto using stays |].
  destruct (IH s) as (t & on & at_ & same_keys_ & phases). exists (next t).
  split; [now apply (goes_by s t Passes t) |]. simpl. repeat split; auto. lia.
Qed.

(* The keys of a resource end on each of these bodies. *)
Lemma can_free : server_clocks_go_on y -> forall x up s, (forall b, In b up -> life_of s b = Intact) ->
  exists t, goes_on s t /\ phase_of t = phase_of s /\ forall b, In b up \/ keys s b x = None -> keys t b x = None.
Proof.
  intros go_on x. induction up as [| b up IH]; intros s lives.
  { exists s. split; [apply stays |]. split; [reflexivity |]. intros b [[] | free]. exact free. }
  destruct (IH s) as (t & on & phases & free); [intros; apply lives; now right |].
  destruct (keys t b x) as [k |] eqn:has.
  2: { exists t. split; [assumption |]. split; [assumption |]. intros b' [[<- | b'_in] | ?]; auto. }
  destruct (go_on b (ends k)) as (n & ended). destruct (can_wait n t) as (u & on' & at_u & same_keys_ & phases').
  rewrite <- same_keys_ in has. pose proof (goes_further _ _ _ on on') as on_u.
  exists (next (with_body u b (knows u b) (fence u b) (update (keys u b) x None))). split.
  - apply (goes_by s u (Ends b x)); auto; [| intros; apply same_at]. simpl. rewrite has.
    unfold alive. rewrite (same_lives _ _ on_u), lives by now left. unfold now.
    assert (over : (ends k <=? server_clock y b (time_at y (moment_now u))) = true) by (apply Z.leb_le, ended; lia).
    now rewrite over.
  - simpl. split; [congruence |]. intros b' which. destruct (Nat.eq_dec b' b) as [-> | other].
    + now rewrite !update_same.
    + rewrite update_other, same_keys_ by assumption. apply free. destruct which as [[? | ?] | ?]; auto. congruence.
Qed.

(* ---- a round ----------------------------------------------------------------------------------- *)

Section Round.
Variable c : attempt.
Variable began : nat.
Variable ttl : Z.

(* Each of these bodies grants the SET. *)
Lemma can_set : forall up s, NoDup up -> phase_of s c = Trying began ttl -> (began <= moment_now s)%nat ->
  (forall b, In b up -> life_of s b = Intact /\ keys s b (resource_of y c) = None) ->
  exists t, goes_on s t /\ moment_now t = (moment_now s + length up)%nat /\ phase_of t = phase_of s /\
    (forall b, In b up -> In (b, c, began, ttl) (sets t)) /\ incl (sets s) (sets t).
Proof.
  induction up as [| b up IH]; intros s one trying past free.
  { exists s. rewrite Nat.add_0_r. split; [apply stays |]. repeat split; auto using incl_refl. contradiction. }
  inversion one as [| ? ? apart one']; subst. destruct (free b (or_introl eq_refl)) as [lives absent].
  set (k := {| owner := c; ends := server_clock y b (now y s) + ttl |}).
  set (u := with_set (with_body s b (knows s b) (fence s b) (update (keys s b) (resource_of y c) (Some k))) (b, c, began, ttl)).
  assert (first : goes_on s (next u)).
  { apply (goes_by s s (Sets b c began ttl)); auto using stays; [| intros; apply same_at]. simpl. rewrite absent.
    unfold alive, has_begun. rewrite lives, trying. simpl. now rewrite (proj2 (Nat.leb_le _ _) past). }
  destruct (IH (next u)) as (t & on & at_t & phases & each & more); simpl in *; auto.
  - intros b' b'_in. destruct (free b' (or_intror b'_in)) as [? none]. split; [assumption |].
    rewrite update_other; [assumption | congruence].
  - exists t. split; [now apply goes_further with (next u) |]. split; [lia |]. split; [assumption |].
    split; [| intros f f_in; apply more; now right]. intros b' [<- | b'_in]; [apply more; now left | auto].
Qed.

(* Each of these bodies votes for the proposal z, and the votes are the newest observations. *)
Lemma can_vote : forall z up s, NoDup up -> phase_of s c = Trying began ttl -> (began <= moment_now s)%nat ->
  (forall b, In b up -> life_of s b = Intact /\ In (b, c, began, ttl) (sets s) /\ fence s b (stripe_for y c) < z) ->
  exists t votes, goes_on s t /\ moment_now t = (moment_now s + length up)%nat /\ phase_of t = phase_of s /\
    log t = votes ++ log s /\ map of_body votes = rev up /\
    forall o, In o votes -> is_vote c began ttl z o = true /\ knew o = knows s (of_body o).
Proof.
  intros z. induction up as [| b up IH]; intros s one trying past ready.
  { exists s, []. rewrite Nat.add_0_r. split; [apply stays |]. repeat split; contradiction. }
  inversion one as [| ? ? apart one']; subst. destruct (ready b (or_introl eq_refl)) as (lives & set_ & low).
  set (f := raised (fence s b) (stripe_for y c) z). set (o := observe s b f (Votes c began ttl z)).
  set (u := with_log (with_body s b (knows s b) f (keys s b)) [o]).
  assert (first : goes_on s (next u)).
  { apply (goes_by s s (Raises b c began ttl z)); auto using stays; [| intros; apply same_at]. simpl.
    unfold alive, intact, has_begun, unless, may_have_key. rewrite lives, trying, (proj2 (Nat.leb_le _ _) past).
    rewrite (proj2 (Z.ltb_lt _ _) low), orb_true_r.
    assert (found : existsb (fun f => match f with (b', c', began', ttl') =>
      (b' =? b)%nat && (c' =? c)%nat && (began' =? began)%nat && (ttl' =? ttl) end) (sets s) = true).
    { apply existsb_exists. exists (b, c, began, ttl). split; [assumption |]. now rewrite !Nat.eqb_refl, Z.eqb_refl. }
    rewrite found. now destruct (drops y Only_intact_vote). }
  destruct (IH (next u)) as (t & votes & on & at_t & phases & logged & bodies & each); simpl in *; auto.
  - intros b' b'_in. destruct (ready b' (or_intror b'_in)) as (? & ? & ?). repeat split; auto.
    rewrite update_other; [assumption | congruence].
  - exists t, (votes ++ [o]). split; [now apply goes_further with (next u) |]. split; [lia |]. split; [assumption |].
    split; [rewrite logged; now rewrite <- app_assoc |]. split; [now rewrite map_app, bodies |].
    intros o' o'_in. apply in_app_iff in o'_in as [o'_in | [<- | []]].
    + destruct (each o' o'_in) as [is ->]. split; [assumption | apply same_at].
    + split; [| reflexivity]. unfold is_vote. simpl. now rewrite !Nat.eqb_refl, !Z.eqb_refl.
Qed.

End Round.

Lemma votes_are_view : forall s up votes, is_up y s up -> map of_body votes = rev up ->
  (forall o, In o votes -> knew o = knows s (of_body o)) -> is_view y votes = true.
Proof.
  intros s up votes [one many _ current] bodies knew_then. unfold is_view.
  assert (of_up : forall o, In o votes -> In (of_body o) up).
  { intros o o_in. apply in_rev. rewrite <- bodies. now apply in_map. }
  rewrite !andb_true_iff. split; [split |].
  - apply all_differ_NoDup. change (map (member (member_of y)) votes) with (map (fun o => member_of y (of_body o)) votes).
    rewrite <- (map_map of_body (member_of y)), bodies, map_rev. now apply NoDup_rev.
  - apply Nat.leb_le. rewrite <- (map_length of_body votes), bodies, rev_length. exact many.
  - unfold unless. apply orb_true_iff. right. apply forallb_forall. intros o o_in. apply forallb_forall. intros o' o'_in.
    apply Nat.leb_le. rewrite (knew_then o' o'_in). apply current; auto.
Qed.

Lemma stays_up : forall s t up, goes_on s t -> is_up y s up -> is_up y t up.
Proof.
  intros s t up [_ lives known _] [one many intact_ current]. constructor; auto.
  - intros b b_in. rewrite lives. auto.
  - intros b b' b_in b'_in. rewrite known. auto.
Qed.

(* An attempt begins at this moment and acquires the lock, where no key is in its way. *)
Lemma can_win : forall s up c ttl, is_up y s up -> phase_of s c = Idle -> ttl <= ttl_max y ->
  (forall b, In b up -> keys s b (resource_of y c) = None) ->
  (forall i, (i <= 2 * length up + 2)%nat ->
    client_clock y c (time_at y (moment_now s + i)) < validity_end y c (moment_now s) ttl) ->
  exists t g, follows y s t /\ is_up y t up /\ grants t = g :: grants s /\ winner g = c /\ inside y t c = true.
Proof.
  intros s up c ttl is idle short free quick. set (m := moment_now s) in *.
  assert (one : NoDup up) by (eapply NoDup_map_inv, is).
  assert (begins : goes_on s (next (with_phase s c (Trying m ttl)))).
  { apply (goes_by s s (Begins c ttl)); auto using stays. simpl. now rewrite idle. }
  destruct (can_set c m ttl up (next (with_phase s c (Trying m ttl)))) as (t & on & at_t & phases & each & _); simpl;
    [exact one | apply update_same | unfold m; lia | intros b b_in; split; [now apply is | auto] |].
  pose proof (goes_further _ _ _ begins on) as on_t. simpl in phases, at_t.
  destruct (above_all (fun b => fence t b (stripe_for y c)) up) as (z & above).
  destruct (can_vote c m ttl z up t) as (u & votes & on' & at_u & phases' & logged & bodies & for_it);
    [exact one | rewrite phases; apply update_same | lia
    | intros b b_in; split; [rewrite (same_lives _ _ on_t); now apply is | auto] |].
  pose proof (goes_further _ _ _ on_t on') as on_u.
  assert (trying : phase_of u c = Trying m ttl) by (rewrite phases', phases; apply update_same).
  assert (valid : forall i, (i <= 2 * length up + 2)%nat ->
    (client_clock y c (time_at y (m + i)) <? validity_end y c m ttl) = true) by (intros; now apply Z.ltb_lt, quick).
  assert (at_u' : moment_now u = (m + (2 * length up + 1))%nat) by (unfold m; lia).
  set (g := {| winner := c; fencing_token := z; began_at := m; won_at := moment_now u; won_ttl := ttl; won_by := votes;
               confirmed_by := None |}).
  set (v := with_grant (with_phase u c (Holding (validity_end y c m ttl))) g).
  exists (next v), g.
  assert (wins : act y u (Wins c z (seq 0 (length votes)) None (validity_end y c m ttl)) = Some v).
  { simpl. rewrite trying, logged. rewrite (pick_first votes [] (log t) : pick (votes ++ log t) (seq 0 (length votes)) = Some votes).
    rewrite (votes_are_view t up votes (stays_up s t up on_t is) bodies (fun o o_in => proj2 (for_it o o_in))).
    rewrite (proj2 (forallb_forall _ _) (fun o o_in => proj1 (for_it o o_in))), (proj2 (Z.leb_le _ _) short), Z.leb_refl.
    assert (in_time : (client_clock y c (now y u) <? validity_end y c m ttl) = true).
    { unfold now. rewrite at_u'. apply valid. lia. }
    now rewrite in_time. }
  split; [apply later with u (Wins c z (seq 0 (length votes)) None (validity_end y c m ttl)); [apply on_u |]; unfold step; now rewrite wins |].
  split; [pose proof (stays_up s u up on_u is) as [? ? ? ?]; constructor; assumption |].
  split; [simpl; now rewrite (same_grants _ _ on_u) |]. split; [reflexivity |].
  unfold inside, now. simpl. rewrite update_same.
  rewrite at_u'. replace (S (m + (2 * length up + 1))) with (m + (2 * length up + 2))%nat by lia. now apply valid.
Qed.

End Progress.

(* While a majority stays up, some attempt for each resource can acquire its lock. *)
Theorem progress_is_possible : forall y s up x, reachable y s -> is_up y s up ->
  server_clocks_go_on y -> rounds_fit y (2 * length up + 2) -> attempts_go_on y x ->
  exists t g, follows y s t /\ is_up y t up /\ grants t = g :: grants s /\ has_lock y t (winner g) x.
Proof.
  intros y s up x reached is clocks fit attempts.
  destruct (some_have_not_begun y s reached) as (n & idle). destruct (attempts n) as (c & late & <-).
  destruct (can_free y clocks (resource_of y c) up s) as (t & on & phases & free); [apply is |].
  destruct (fit c (moment_now t)) as (m & ttl & from & short & quick).
  destruct (can_wait y (m - moment_now t) t) as (u & on' & at_u & same_keys_ & phases').
  pose proof (goes_further _ _ _ _ on on') as on_u. replace m with (moment_now u) in quick by lia.
  destruct (can_win y u up c ttl) as (v & g & to_v & up_v & granted & winner_ & in_v); auto.
  - now apply stays_up with s.
  - rewrite phases', phases. now apply idle.
  - intros b b_in. rewrite same_keys_. auto.
  - exists v, g. rewrite granted, (same_grants _ _ _ on_u), winner_.
    split; [apply follows_further with u; [apply on_u | assumption] |]. split; [assumption |]. split; [reflexivity | now split].
Qed.

(* The premises hold in the world of GuardedRuns.v, also of three members that are up. *)
Example progress_in_the_world : forall s, reachable (world false None) s -> forall up, is_up (world false None) s up ->
  (length up <= 3)%nat -> exists t g, follows (world false None) s t /\ grants t = g :: grants s.
Proof.
  intros s reached up is few.
  destruct (progress_is_possible (world false None) s up 0%nat reached is) as (t & g & to_t & _ & granted & _); eauto.
  - intros b z. exists (Z.to_nat z). intros m late. cbn [world server_clock time_at].
    assert (z <= Z.of_nat m) by lia. unfold tick, ms. lia.
  - intros c n. exists n, second. split; [lia |]. split; [vm_compute; discriminate |]. intros i small.
    unfold validity_end. cbn [world client_clock time_at drift_ppm drift_fixed andb].
    assert (drift_of ppm_default fixed_default second = 12 * ms) as -> by reflexivity. unfold second, tick, ms. nia.
  - intros n. exists n. auto.
Qed.
