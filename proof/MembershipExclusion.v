(* SPDX-License-Identifier: BSD-2-Clause

   Locks while the list of members changes: at no moment do two clients hold one lock, if clocks run. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipLocks MembershipLives.
Import ListNotations.
Open Scope Z_scope.

Section Exclusion.
Variable y : system.
Hypothesis well : well_formed y.
Hypothesis rules : obeys y.

Notation invariant := (invariant y).

(* Since the moment `set` this life of the node had the key of attempt c, with `ttl` to live from then on.
   It has it still (or had it when it ended), or the key has ended by its clock. *)
Definition kept (s : state) (n : node) (l : nat) (c : attempt) (began : nat) (ttl : Z) : Prop :=
  exists set, (began <= set <= now s)%nat /\
    ((exists k, keys (nodes s n) l (resource_of y c) = Some k /\ owner k = c /\
       server_clock y n l (time_at y set) + ttl <= ends k) \/
     (exists ended, (set <= ended <= now s)%nat /\
       server_clock y n l (time_at y set) + ttl <= server_clock y n l (time_at y ended))).

(* A vote: the attempt is over, or the key was there, or the round began before this life did (the key was
   old data). *)
Definition meant (s : state) (v : vote) : Prop :=
  phase_of s (for_ v) = Over \/ kept s (voter v) (in_life v) (for_ v) (began v) (ttl v) \/
  (0 < in_life v /\ began v <= born (nodes s (voter v)) (in_life v))%nat.

Record proven (s : state) (c : attempt) (e : nat) (began_ : nat) (ttl_ : Z) (l : list vote) : Prop := {
  of_log : forall v, In v l -> In v (votes s);
  for_it : forall v, In v l -> for_ v = c /\ began v = began_ /\ ttl v = ttl_;
  by_majority : majority (map voter l) (list_of s e);
  known : (e <= newest s)%nat;
  not_newer : forall v, In v l -> (at_epoch v <= e)%nat;
  within_ttl_max : ttl_ <= ttl_max y;
}.

Record meaning (s : state) : Prop := {
  sets_known : forall n l c b t, In (n, l, c, b, t) (sets s) -> (l <= life (nodes s n))%nat;
  sets_kept : forall n l c b t, In (n, l, c, b, t) (sets s) -> phase_of s c = Over \/ kept s n l c b t;
  all_meant : forall v, In v (votes s) -> meant s v;
  holders_proven : forall c until, phase_of s c = Holding until ->
    exists e b t l, proven s c e b t l /\ until <= validity_end y c b t;
}.

(* A node changes the keys of its life for a reason. *)
Definition changes_well (s s' : state) : Prop :=
  forall n l x k, (l <= life (nodes s n))%nat -> keys (nodes s n) l x = Some k ->
    (exists k', keys (nodes s' n) l x = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
    ends k <= server_clock y n l (real y s) \/ phase_of s' (owner k) = Over.

Lemma kept_stays : forall s s' n l c b t, (now s <= now s')%nat -> changes_well s s' ->
  (l <= life (nodes s n))%nat -> kept s n l c b t -> phase_of s' c = Over \/ kept s' n l c b t.
Proof.
  intros s s' n l c b t later change low (set & past & [(k & has & own & lives) | (ended & ? & ?)]).
  - destruct (change n l _ k low has) as [(k' & has' & own' & longer) | [is_over | over]].
    + right. exists set. split; [lia |]. left. exists k'. repeat split; [assumption | congruence | lia].
    + right. exists set. split; [lia |]. right. exists (now s). unfold real in is_over. split; [lia | lia].
    + left. congruence.
  - right. exists set. split; [lia |]. right. exists ended. split; [lia | assumption].
Qed.

Lemma meaning_step_by : forall s s' D, invariant s D -> meaning s ->
  (now s <= now s')%nat -> changes_well s s' ->
  (forall c, phase_of s c = Over -> phase_of s' c = Over) ->
  (forall n, (life (nodes s n) <= life (nodes s' n))%nat /\
    forall l, (l <= life (nodes s n))%nat -> born (nodes s' n) l = born (nodes s n) l) ->
  (newest s <= newest s')%nat -> (forall e, (e <= newest s)%nat -> list_of s' e = list_of s e) ->
  (forall n l c b t, In (n, l, c, b, t) (sets s') ->
    In (n, l, c, b, t) (sets s) \/ (l <= life (nodes s' n))%nat /\ kept s' n l c b t) ->
  (forall v, In v (votes s) -> In v (votes s')) ->
  (forall v, In v (votes s') -> In v (votes s) \/ meant s' v) ->
  (forall c until, phase_of s' c = Holding until ->
    (exists old, phase_of s c = Holding old /\ until <= old) \/
    exists e b t l, proven s c e b t l /\ until <= validity_end y c b t) ->
  meaning s'.
Proof.
  intros s s' D i m later change over lives epochs lists new_sets more new_votes holding.
  assert (carry : forall c e b t l, proven s c e b t l -> proven s' c e b t l).
  { intros c e b t l p. constructor; try apply p.
    - intros v v_in. apply more. now apply (of_log _ _ _ _ _ _ p).
    - rewrite lists by apply p. apply p.
    - pose proof (known _ _ _ _ _ _ p). lia. }
  constructor.
  - intros n l c b t f_in. destruct (new_sets n l c b t f_in) as [old | [? _]]; [| assumption].
    pose proof (sets_known s m n l c b t old). pose proof (proj1 (lives n)). lia.
  - intros n l c b t f_in. destruct (new_sets n l c b t f_in) as [old | [_ ?]]; [| auto].
    destruct (sets_kept s m n l c b t old) as [? | k]; [auto |].
    apply kept_stays with s; auto. now apply (sets_known s m n l c b t).
  - intros v v_in. destruct (new_votes v v_in) as [old | ?]; [| assumption].
    destruct (vote_lives y s D i v old) as [low _].
    destruct (all_meant s m v old) as [? | [k | [positive first]]].
    + left. auto.
    + destruct (kept_stays s s' (voter v) (in_life v) (for_ v) (began v) (ttl v) later change low k) as [? | ?];
        [now left | right; now left].
    + right; right. split; [assumption |]. rewrite (proj2 (lives (voter v))) by assumption. assumption.
  - intros c until at_c. destruct (holding c until at_c) as [(old & held & shorter) | (e & b & t & l & p & bound)].
    + destruct (holders_proven s m c old held) as (e & b & t & l & p & bound). exists e, b, t, l. split; [auto | lia].
    + exists e, b, t, l. auto.
Qed.

Lemma meaning_initial : meaning (initial y).
Proof. constructor; simpl; try contradiction; discriminate. Qed.

(* What a node's step does to its lives. *)
Lemma act_lives : forall s ev u D, invariant s D -> act y s ev = Some u -> forall n,
  (life (nodes s n) <= life (nodes (next u) n))%nat /\
  forall l, (l <= life (nodes s n))%nat -> born (nodes (next u) n) l = born (nodes s n) l.
Proof.
  intros s ev u D i acts n. destruct (decides_or_settles ev) eqn:which.
  - assert (nodes (next u) = nodes s) as ->; [| split; auto].
    destruct ev; try discriminate; simpl in acts.
    + apply when_some in acts as [_ ->]. reflexivity.
    + destruct (newest s); [discriminate |]. destruct (pick (reads s) places); [| discriminate].
      apply when_some in acts as [_ ->]. reflexivity.
    + destruct (gathered s (newest s)); [| discriminate]. apply when_some in acts as [_ ->]. reflexivity.
  - assert (happens : step y s ev = Some (next u)) by (unfold step; now rewrite acts).
    destruct (step_of_nodes y rules s ev (next u) happens which) as [st _].
    destruct (each_becomes y s (next u) D i st n) as [(-> & _ & -> & _) | -> _ -> _ | e e' _ _ _ -> -> _ | e w _ _ _ -> -> _ _];
      split; auto. intros l low. apply update_other. lia.
Qed.

Lemma keys_of_one : forall s s' n a, nodes s' = update (nodes s) n a ->
  (forall l x k, (l <= life (nodes s n))%nat -> keys (nodes s n) l x = Some k ->
    (exists k', keys a l x = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
    ends k <= server_clock y n l (real y s) \/ phase_of s' (owner k) = Over) -> changes_well s s'.
Proof.
  intros s s' n a nd own m l x k low has. rewrite nd. destruct (Nat.eq_dec m n) as [-> | other].
  - rewrite update_same. auto.
  - rewrite update_other by assumption. left. exists k. repeat split; [assumption | lia].
Qed.

Lemma same_keys : forall s s', (forall n l x, (l <= life (nodes s n))%nat -> keys (nodes s' n) l x = keys (nodes s n) l x) ->
  changes_well s s'.
Proof. intros s s' same n l x k low has. left. exists k. rewrite same by assumption. repeat split; [assumption | lia]. Qed.

(* One key of the present life is another one. *)
Lemma one_key : forall s s' n x0 new a, nodes s' = update (nodes s) n a ->
  keys a = keys (with_key (nodes s n) x0 new) ->
  (forall k, has_key (nodes s n) x0 = Some k ->
    (exists k', new = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
    ends k <= server_clock y n (life (nodes s n)) (real y s) \/ phase_of s' (owner k) = Over) -> changes_well s s'.
Proof.
  intros s s' n x0 new a nd ks own. apply (keys_of_one s s' n a nd). intros l x k low has. rewrite ks. simpl.
  destruct (Nat.eq_dec l (life (nodes s n))) as [-> | other].
  - rewrite update_same. destruct (Nat.eq_dec x x0) as [-> | other].
    + rewrite update_same. now apply own.
    + rewrite update_other by assumption. left. exists k. repeat split; [assumption | lia].
  - rewrite update_other by assumption. left. exists k. repeat split; [assumption | lia].
Qed.

Lemma counted : forall s e l, counts y s e l = true -> (e <= newest s)%nat /\ majority (map voter l) (list_of s e) /\
  forall v, In v l -> (at_epoch v <= e)%nat.
Proof.
  intros s e l ok. unfold counts in ok. rewrite !(keeps_rule y rules), !andb_true_iff, !forallb_forall, !Nat.leb_le in ok.
  destruct ok as ((((low & differ) & of_) & enough) & not_newer_). split; [assumption |]. split.
  - constructor.
    + now apply all_differ_NoDup.
    + intros n n_in. apply in_map_iff in n_in as (v & <- & v_in). apply among_in. auto.
    + now rewrite map_length.
  - intros v v_in. apply Nat.leb_le. auto.
Qed.

(* A step that changes neither phases, sets nor votes. *)
Lemma meaning_quiet : forall s u D, invariant s D -> meaning s ->
  (forall n, (life (nodes s n) <= life (nodes u n))%nat /\
    forall l, (l <= life (nodes s n))%nat -> born (nodes u n) l = born (nodes s n) l) ->
  now u = now s -> changes_well s (next u) -> phase_of u = phase_of s -> sets u = sets s -> votes u = votes s ->
  (newest s <= newest u)%nat -> (forall e, (e <= newest s)%nat -> list_of u e = list_of s e) -> meaning (next u).
Proof.
  intros s u D i m lives no change ph se vo ne li. apply (meaning_step_by s _ D); simpl; auto; rewrite ?no, ?ph, ?se, ?vo; auto.
  intros c until at_c. left. exists until. split; [assumption | lia].
Qed.

(* A step of one client. *)
Lemma meaning_client : forall s u D c p, invariant s D -> meaning s ->
  (forall n, (life (nodes s n) <= life (nodes u n))%nat /\
    forall l, (l <= life (nodes s n))%nat -> born (nodes u n) l = born (nodes s n) l) ->
  now u = now s -> nodes u = nodes s -> phase_of u = update (phase_of s) c p -> sets u = sets s -> votes u = votes s ->
  newest u = newest s -> list_of u = list_of s -> phase_of s c <> Over \/ p = Over ->
  (forall until, p = Holding until -> (exists old, phase_of s c = Holding old /\ until <= old) \/
    exists e b t l, proven s c e b t l /\ until <= validity_end y c b t) -> meaning (next u).
Proof.
  intros s u D c p i m lives no nd ph se vo ne li not_over holding.
  apply (meaning_step_by s _ D); simpl; auto; rewrite ?no, ?ph, ?se, ?vo, ?ne, ?li; auto.
  - apply same_keys. intros. simpl. now rewrite nd.
  - intros d is. destruct (Nat.eq_dec d c) as [-> |]; [| now rewrite update_other].
    rewrite update_same. destruct not_over; congruence.
  - intros d until is. destruct (Nat.eq_dec d c) as [-> |].
    + rewrite update_same in is. auto.
    + rewrite update_other in is by assumption. left. exists until. split; [assumption | lia].
Qed.

Lemma meaning_sets : forall s n c began ttl u D, invariant s D -> meaning s -> act y s (Sets n c began ttl) = Some u -> meaning (next u).
Proof.
  intros s n c began ttl u D i m acts.
  pose proof (act_lives s _ _ D i acts) as lives. simpl in acts.
  destruct (has_key (nodes s n) (resource_of y c)) eqn:absent; [discriminate |].
  assert (set_ : u = with_set (with_node s n (with_key (nodes s n) (resource_of y c)
             (Some {| owner := c; ends := server_clock y n (life (nodes s n)) (real y s) + ttl |})))
             (n, life (nodes s n), c, began, ttl) /\ (began <= now s)%nat)
    by (destruct (phase_of s c); try discriminate; apply when_some in acts as [ok ->]; apply Nat.leb_le in ok; auto).
  destruct set_ as [-> first]. apply (meaning_step_by s _ D); simpl; auto.
  - eapply (one_key s _ n (resource_of y c)); [reflexivity | reflexivity |]. intros k has. congruence.
  - intros n' l' c' b' t' [same | f_in]; [| auto]. inversion same; subst. right. rewrite update_same. simpl.
    split; [lia |]. exists (now s). simpl. split; [lia |]. left. rewrite update_same. simpl. rewrite !update_same.
    eexists. split; [reflexivity |]. simpl. unfold real. split; [reflexivity | lia].
  - intros d until at_d. left. exists until. split; [assumption | lia].
Qed.

Lemma meaning_votes : forall s n c began ttl t u D, invariant s D -> meaning s -> act y s (Votes n c began ttl t) = Some u -> meaning (next u).
Proof.
  intros s n c began ttl t u D i m acts.
  pose proof (act_lives s _ _ D i acts) as lives. simpl in acts.
  destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |].
  assert (vote_ : exists v, u = with_vote (with_reads (with_node s n
      (with_fence (nodes s n) (bumped (fence (nodes s n)) (resource_of y c) t)))
      [observe s n e (bumped (fence (nodes s n)) (resource_of y c) t)]) v /\
    voter v = n /\ in_life v = life (nodes s n) /\ for_ v = c /\ MembershipLocks.began v = began /\
    MembershipLocks.ttl v = ttl /\
    may_have_key s n c began ttl = true)
    by (destruct (phase_of s c); try discriminate; apply when_some in acts as [ok ->]; rewrite !andb_true_iff in ok;
        eexists; (split; [reflexivity |]); simpl; repeat (split; [reflexivity |]); apply ok).
  destruct vote_ as (v & -> & of_ & in_ & for__ & began_ & ttl_ & has).
  match goal with |- meaning ?w => assert (change : changes_well s w) end.
  { apply same_keys. intros m' l x low. simpl. destruct (Nat.eq_dec m' n) as [-> | other];
      [now rewrite update_same | now rewrite update_other]. }
  apply (meaning_step_by s _ D); simpl; auto.
  - intros v' [<- | v_in]; [right | auto]. unfold meant. rewrite of_, in_, for__, began_, ttl_. simpl.
    unfold may_have_key in has. apply orb_true_iff in has as [fact | late].
    + apply existsb_exists in fact as ([[[[n' l'] c'] b'] t'] & f_in & same).
      rewrite !andb_true_iff, !Nat.eqb_eq, Z.eqb_eq in same. destruct same as ((((-> & ->) & ->) & ->) & ->).
      destruct (sets_kept s m _ _ _ _ _ f_in) as [? | k]; [now left |].
      match type of change with changes_well s ?w =>
        destruct (kept_stays s w _ _ _ _ _ (Nat.le_succ_diag_r (now s)) change (le_n _) k) as [? | ?] end;
        [now left | right; now left].
    + right; right. rewrite update_same. simpl. rewrite andb_true_iff, Nat.ltb_lt, Nat.leb_le in late. exact late.
  - intros d until at_d. left. exists until. split; [assumption | lia].
Qed.

Lemma meaning_extends : forall s n c began ttl t u D, invariant s D -> meaning s -> act y s (Extends n c began ttl t) = Some u -> meaning (next u).
Proof.
  intros s n c began ttl t u D i m acts.
  pose proof (act_lives s _ _ D i acts) as lives. simpl in acts.
  destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |].
  destruct (has_key (nodes s n) (resource_of y c)) as [k |] eqn:has; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite andb_true_iff, Nat.eqb_eq, Nat.leb_le in ok. destruct ok as (own & first).
  apply (meaning_step_by s _ D); simpl; auto.
  - eapply (one_key s _ n (resource_of y c)); [reflexivity | reflexivity |]. intros k' has'. left. eexists.
    split; [reflexivity |]. simpl. assert (k' = k) as -> by congruence. split; [congruence | lia].
  - intros v' [<- | v_in]; [right | auto]. right; left. exists (now s). simpl. split; [lia |]. left.
    rewrite update_same. simpl. rewrite !update_same. eexists. split; [reflexivity |]. simpl. unfold real. split; [reflexivity | lia].
  - intros d until at_d. left. exists until. split; [assumption | lia].
Qed.

Lemma meaning_wins : forall s c t e places until u D, invariant s D -> meaning s -> act y s (Wins c t e places until) = Some u -> meaning (next u).
Proof.
  intros s c t e places until u D i m acts.
  pose proof (act_lives s _ _ D i acts) as lives. simpl in acts.
  pose proof (fun c p => meaning_client s u D c p i m lives) as client.
  destruct (phase_of s c) eqn:at_c; try discriminate. destruct (pick (votes s) places) as [l |] eqn:ps; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite !andb_true_iff, forallb_forall, !Z.leb_le in ok.
  destruct ok as ((((count & each) & short) & _) & bound). destruct (counted s e l count) as (low & maj & not_newer_).
  eapply client with (c := c) (p := Holding until); try reflexivity; [left; congruence |].
  intros until0 is. inversion is; subst until0. right. exists e, began, ttl, l. split; [| assumption].
  constructor; auto; [now apply (picked _ _ _ _ ps) |]. intros v v_in. specialize (each v v_in).
  unfold is_acquisition in each. rewrite !andb_true_iff, !Nat.eqb_eq, Z.eqb_eq in each. intuition.
Qed.

Lemma meaning_extended : forall s c began ttl e places until u D, invariant s D -> meaning s -> act y s (Extended c began ttl e places until) = Some u -> meaning (next u).
Proof.
  intros s c began ttl e places until u D i m acts.
  pose proof (act_lives s _ _ D i acts) as lives. simpl in acts.
  pose proof (fun c p => meaning_client s u D c p i m lives) as client.
  destruct (phase_of s c) as [| | old |] eqn:at_c; try discriminate. destruct (pick (votes s) places) as [l |] eqn:ps; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite !andb_true_iff, forallb_forall, !Z.leb_le in ok.
  destruct ok as ((((count & each) & short) & _) & bound). destruct (counted s e l count) as (low & maj & not_newer_).
  eapply client with (c := c) (p := Holding (Z.max old until)); try reflexivity; [left; congruence |].
  intros until0 is. inversion is; subst until0. destruct (Z.max_spec old until) as [[_ ->] | [_ ->]].
  - right. exists e, began, ttl, l. split; [| assumption].
    constructor; auto; [now apply (picked _ _ _ _ ps) |]. intros v v_in. specialize (each v v_in).
    unfold is_renewal in each. rewrite !andb_true_iff, !Nat.eqb_eq, Z.eqb_eq in each. intuition.
  - left. exists old. split; [assumption | lia].
Qed.

Lemma meaning_step : forall s ev s' D, invariant s D -> meaning s -> step y s ev = Some s' -> meaning s'.
Proof.
  intros s ev s' D i m happens.
  unfold step in happens. destruct (act y s ev) as [u |] eqn:acts; [| discriminate]. inversion happens; subst s'; clear happens.
  pose proof (act_lives s ev u D i acts) as lives.
  pose proof (meaning_quiet s u D i m lives) as quiet.
  pose proof (fun c p => meaning_client s u D c p i m lives) as client.
  destruct ev; simpl in acts.
  - (* Passes *) inversion acts; subst. apply quiet; auto. now apply same_keys.
  - (* Begins *)
    destruct (phase_of s c) eqn:at_c; inversion acts; subst.
    eapply client with (c := c) (p := Trying (now s) ttl); try reflexivity; [left; congruence | discriminate].
  - (* Sets *) exact (meaning_sets s n c began ttl u D i m acts).
  - (* Votes *) exact (meaning_votes s n c began ttl t u D i m acts).
  - (* Extends *) exact (meaning_extends s n c began ttl t u D i m acts).
  - (* Bumps *)
    inversion acts; subst. apply quiet; auto. apply same_keys. intros m' l x' low. simpl.
    destruct (Nat.eq_dec m' n) as [-> | other]; [now rewrite update_same | now rewrite update_other].
  - (* Deletes *)
    destruct (phase_of s c) eqn:over; try discriminate. destruct (has_key (nodes s n) (resource_of y c)) as [k |] eqn:has; [| discriminate].
    apply when_some in acts as [ok ->]. apply Nat.eqb_eq in ok. apply quiet; auto.
    eapply (one_key s _ n (resource_of y c) None); [reflexivity | reflexivity |]. intros k' has'. right; right. simpl. congruence.
  - (* Ends *)
    destruct (has_key (nodes s n) x) as [k |] eqn:has; [| discriminate]. apply when_some in acts as [ok ->]. apply Z.leb_le in ok.
    apply quiet; auto. eapply (one_key s _ n x None); [reflexivity | reflexivity |]. intros k' has'. right; left. congruence.
  - (* Loses *)
    inversion acts; subst. apply quiet; auto. apply same_keys. intros m' l x' low. simpl.
    destruct (Nat.eq_dec m' n) as [-> | other]; [| now rewrite update_other]. rewrite update_same. simpl.
    now rewrite update_other by lia.
  - (* Reads *)
    destruct (stands (nodes s n)); [discriminate |]. inversion acts; subst. apply quiet; auto. now apply same_keys.
  - (* Installs *)
    destruct (stands (nodes s n)) eqn:at_; [| discriminate].
    destruct (pick (reads s) places) as [[| o l] |]; try discriminate. apply when_some in acts as [_ ->].
    apply quiet; auto. apply same_keys. intros m' l' x' low. simpl.
    destruct (Nat.eq_dec m' n) as [-> | other]; [now rewrite update_same | now rewrite update_other].
  - (* Decides *)
    apply when_some in acts as [_ ->]. apply quiet; simpl; auto; [now apply same_keys |].
    intros e low. apply update_other. lia.
  - (* Switches *)
    destruct (stands (nodes s n)); [discriminate |]. apply when_some in acts as [_ ->].
    apply quiet; auto. apply same_keys. intros m' l' x' low. simpl.
    destruct (Nat.eq_dec m' n) as [-> | other]; [now rewrite update_same | now rewrite update_other].
  - (* Gathers *)
    destruct (newest s) eqn:ne; [discriminate |]. destruct (pick (reads s) places); [| discriminate].
    apply when_some in acts as [_ ->]. apply quiet; simpl; auto; [now apply same_keys | lia].
  - (* Raises *)
    destruct (stands (nodes s n)); [discriminate |]. destruct (gathered s (newest s)); [| discriminate].
    apply when_some in acts as [_ ->]. apply quiet; auto. apply same_keys. intros m' l' x' low. simpl.
    destruct (Nat.eq_dec m' n) as [-> | other]; [now rewrite update_same | now rewrite update_other].
  - (* Marks *)
    destruct (gathered s (newest s)); [| discriminate]. apply when_some in acts as [_ ->].
    apply quiet; auto. now apply same_keys.
  - (* Wins *) exact (meaning_wins s c t e places until u D i m acts).
  - (* Extended *) exact (meaning_extended s c began ttl e places until u D i m acts).
  - (* Cuts *)
    destruct (phase_of s c) as [| | old |] eqn:at_c; try discriminate. apply when_some in acts as [ok ->]. apply Z.leb_le in ok.
    eapply client with (c := c) (p := Holding until); try reflexivity; [left; congruence |].
    intros until0 is. inversion is; subst until0. left. eauto.
  - (* Releases *)
    inversion acts; subst. eapply client with (c := c) (p := Over); try reflexivity; [now right | discriminate].
Qed.

Lemma meaning_reachable : forall s, reachable y s -> meaning s.
Proof.
  intros s reached. induction reached as [| s ev s' reached m happens]; [apply meaning_initial |].
  destruct (reachable_invariant y well rules s reached) as [D i]. now apply (meaning_step s ev s' D).
Qed.

(* ---- exclusion ---------------------------------------------------------------------------------- *)

Hypothesis clocks : clocks_run y.

(* After a wait, the validity of every round from before it has ended, and stays so. *)
Lemma outlived : forall c began ttl w n, is_long_enough y w = true -> (began <= wait_from w)%nat ->
  (wait_from w <= wait_to w)%nat -> (wait_to w <= n)%nat -> ttl <= ttl_max y ->
  validity_end y c began ttl <= client_clock y c (time_at y n).
Proof.
  intros c began ttl w n long first ordered until short.
  destruct (wait_is_enough y clocks) as (p & b & p0 & a0 & rates & f0 & errors).
  unfold is_long_enough in long. apply Z.leb_le in long.
  pose proof (time_goes_forward y well _ _ first). pose proof (time_goes_forward y well _ _ ordered).
  pose proof (time_goes_forward y well _ _ until).
  pose proof (of_agents y clocks (waiter w) (time_at y (wait_from w)) (time_at y (wait_to w)) ltac:(lia)) as real_.
  pose proof (of_clients y clocks c (time_at y began) (time_at y n) ltac:(lia)) as shown.
  destruct (Z_lt_ge_dec (client_clock y c (time_at y n)) (validity_end y c began ttl)) as [inside_ |]; [exfalso | lia].
  unfold validity_end, drift in *.
  pose proof (drift_rounds_up (drift_ppm y) (drift_fixed y) ttl) as [round _].
  pose proof (drift_rounds_up (drift_ppm y) (drift_fixed y) (ttl_max y)) as [round_max _].
  set (real_wait := time_at y (wait_to w) - time_at y (wait_from w)) in *.
  set (T := ttl_max y) in *.
  assert (client_wait : (million - client_ppm y) * real_wait <= (million - client_ppm y) * (time_at y n - time_at y began))
    by (apply Z.mul_le_mono_nonneg_l; unfold real_wait; lia).
  assert (too_short : (million - client_ppm y) * real_wait < (million - drift_ppm y) * T
            - million * drift_fixed y + million * client_error y).
  { assert ((million - drift_ppm y) * ttl <= (million - drift_ppm y) * T) by (apply Z.mul_le_mono_nonneg_l; lia).
    unfold million in *. lia. }
  assert (long_enough : (million + drift_ppm y) * T + million * drift_fixed y <= (million + agent_ppm y) * real_wait)
    by (unfold million in *; lia).
  assert (real_wait_positive : 0 <= real_wait) by (unfold real_wait; lia).
  assert (scaled : (million - drift_ppm y) * ((million + drift_ppm y) * T + million * drift_fixed y)
            <= (million - drift_ppm y) * ((million + agent_ppm y) * real_wait))
    by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (rated : (million + agent_ppm y) * (million - drift_ppm y) * real_wait
            <= (million - client_ppm y) * (million + drift_ppm y) * real_wait)
    by (apply Z.mul_le_mono_nonneg_r; lia).
  assert (scaled' : (million + drift_ppm y) * ((million - client_ppm y) * real_wait)
            < (million + drift_ppm y) * ((million - drift_ppm y) * T - million * drift_fixed y + million * client_error y))
    by (apply Z.mul_lt_mono_pos_l; unfold million in *; lia).
  assert (0 <= (million - drift_ppm y) * (million * drift_fixed y))
    by (apply Z.mul_nonneg_nonneg; unfold million in *; lia).
  assert ((million + drift_ppm y) * (million * client_error y) <= (million + drift_ppm y) * (million * drift_fixed y))
    by (apply Z.mul_le_mono_nonneg_l; unfold million in *; lia).
  unfold million in *. lia.
Qed.

(* A key that has ended: the validity that rests on it ended before. *)
Lemma ended_by_clock : forall s n l c began ttl set ended,
  (began <= set <= ended)%nat -> (ended <= now s)%nat ->
  server_clock y n l (time_at y set) + ttl <= server_clock y n l (time_at y ended) ->
  validity_end y c began ttl <= client_clock y c (real y s).
Proof.
  intros s n l c began ttl set ended first later lived. unfold real.
  destruct (Z_lt_ge_dec (client_clock y c (time_at y (now s))) (validity_end y c began ttl)) as [valid |]; [exfalso | lia].
  unfold validity_end, drift in valid.
  pose proof (time_goes_forward y well began set ltac:(lia)).
  pose proof (time_goes_forward y well set ended ltac:(lia)).
  pose proof (time_goes_forward y well ended (now s) ltac:(lia)).
  pose proof (validity_ends_first (drift_ppm y) (drift_fixed y) (client_ppm y) (server_ppm y)
    (client_error y) (server_error y) ttl (time_at y began) (time_at y set) (time_at y ended) (time_at y (now s))
    (client_clock y c) (server_clock y n l)) as ends_first.
  assert (server_clock y n l (time_at y ended) - server_clock y n l (time_at y set) < ttl); [| lia].
  apply ends_first; try assumption; try apply clocks; lia.
Qed.

(* A client inside its validity, and the votes on which it rests. *)
Record holder (s : state) (c : attempt) (e : nat) (b : nat) (t : Z) (l : list vote) : Prop := {
  is_proven : proven s c e b t l;
  is_inside : client_clock y c (real y s) < validity_end y c b t;
  not_over : phase_of s c <> Over;
}.

Lemma inside_holder : forall s c, meaning s -> inside y s c = true -> exists e b t l, holder s c e b t l.
Proof.
  intros s c m in_. unfold inside in in_. destruct (phase_of s c) as [| | until |] eqn:at_c; try discriminate.
  apply Z.ltb_lt in in_. destruct (holders_proven s m c until at_c) as (e & b & t & l & p & bound).
  exists e, b, t, l. constructor; [assumption | lia | congruence].
Qed.

(* No wait has outlived the round of a holder. *)
Lemma not_outlived : forall s c e b t l w, holder s c e b t l -> is_long_enough y w = true ->
  (b <= wait_from w)%nat -> (wait_from w <= wait_to w)%nat -> (wait_to w <= now s)%nat -> False.
Proof.
  intros s c e b t l w h long first ordered until.
  pose proof (outlived c b t w (now s) long first ordered until (within_ttl_max _ _ _ _ _ _ (is_proven _ _ _ _ _ _ h))).
  pose proof (is_inside _ _ _ _ _ _ h). unfold real in *. lia.
Qed.

Lemma voter_has_the_key : forall s D c e b t l v, invariant s D -> meaning s -> holder s c e b t l -> In v l ->
  exists k, keys (nodes s (voter v)) (in_life v) (resource_of y c) = Some k /\ owner k = c.
Proof.
  intros s D c e b t l v i m h v_in. pose proof (is_proven _ _ _ _ _ _ h) as p.
  destruct (for_it _ _ _ _ _ _ p v v_in) as (for__ & began_ & ttl_). pose proof (of_log _ _ _ _ _ _ p v v_in) as v_log.
  destruct (all_meant s m v v_log) as [over | [(set & past & [(k & has & own & _) | (ended & between & lived)]) | [positive first]]].
  - elim (not_over _ _ _ _ _ _ h). congruence.
  - rewrite for__ in *. eauto.
  - exfalso. rewrite began_, ttl_ in *.
    pose proof (ended_by_clock s _ _ c b t set ended ltac:(lia) ltac:(lia) lived).
    pose proof (is_inside _ _ _ _ _ _ h). lia.
  - exfalso. destruct (votes_waited y s D i v v_log positive) as (w & _ & [since ordered until long]).
    pose proof (votes_past y s D i v v_log). apply (not_outlived s c e b t l w h long); lia.
Qed.

(* Two holders whose votes share a node. *)
Lemma share_a_node : forall s D c d e b t l e' b' t' l' n, invariant s D -> meaning s ->
  holder s c e b t l -> holder s d e' b' t' l' -> resource_of y c = resource_of y d ->
  In n (map voter l) -> In n (map voter l') -> c = d.
Proof.
  intros s D c d e b t l e' b' t' l' n i m h h' same n_in n_in'.
  apply in_map_iff in n_in as (v & <- & v_in), n_in' as (w & one & w_in).
  (* A vote of a former life is outlived by the present one. *)
  assert (former : forall c1 e1 b1 t1 l1 v1 w1, holder s c1 e1 b1 t1 l1 -> In v1 l1 -> In w1 (votes s) ->
    voter w1 = voter v1 -> (in_life v1 < in_life w1)%nat -> False).
  { intros c1 e1 b1 t1 l1 v1 w1 h1 v1_in w1_log one1 less. pose proof (is_proven _ _ _ _ _ _ h1) as p1.
    pose proof (of_log _ _ _ _ _ _ p1 v1 v1_in) as v1_log. destruct (for_it _ _ _ _ _ _ p1 v1 v1_in) as (_ & began_ & _).
    destruct (votes_waited y s D i w1 w1_log ltac:(lia)) as (x & _ & [since ordered until long]).
    destruct (vote_lives y s D i w1 w1_log) as [low _]. destruct (vote_lives y s D i v1 v1_log) as [_ each].
    rewrite one1 in *. specialize (each (in_life w1) ltac:(lia)).
    pose proof (votes_past y s D i v1 v1_log). pose proof (votes_past y s D i w1 w1_log).
    apply (not_outlived s c1 e1 b1 t1 l1 x h1 long); lia. }
  pose proof (of_log _ _ _ _ _ _ (is_proven _ _ _ _ _ _ h) v v_in) as v_log.
  pose proof (of_log _ _ _ _ _ _ (is_proven _ _ _ _ _ _ h') w w_in) as w_log.
  destruct (lt_eq_lt_dec (in_life v) (in_life w)) as [[less | equal] | more].
  - exfalso. now apply (former c e b t l v w).
  - destruct (voter_has_the_key s D c e b t l v i m h v_in) as (k & has & own).
    destruct (voter_has_the_key s D d e' b' t' l' w i m h' w_in) as (k' & has' & own').
    rewrite one, <- equal, <- same in has'. congruence.
  - exfalso. now apply (former d e' b' t' l' w v).
Qed.

Lemma one_holder : forall s D c d e b t l e' b' t' l', invariant s D -> meaning s ->
  holder s c e b t l -> holder s d e' b' t' l' -> resource_of y c = resource_of y d -> (e <= e')%nat -> c = d.
Proof.
  intros s D c d e b t l e' b' t' l' i m h h' same order.
  pose proof (is_proven _ _ _ _ _ _ h) as p. pose proof (is_proven _ _ _ _ _ _ h') as p'.
  pose proof (by_majority _ _ _ _ _ _ p) as maj. pose proof (by_majority _ _ _ _ _ _ p') as maj'.
  pose proof (known _ _ _ _ _ _ p'). destruct (le_lt_dec e' (S e)) as [near | far].
  - assert (meet : exists n, In n (map voter l) /\ In n (map voter l')).
    { destruct (Nat.eq_dec e' e) as [-> | other]; [now apply (majorities_meet (list_of s e)) |].
      assert (e' = S e) as -> by lia.
      apply (consecutive_majorities_meet (list_of s e) (list_of s (S e))); auto.
      - apply (lists_one_each y s D i). lia.
      - apply (lists_change y s D i). lia. }
    destruct meet as (n & n_in & n_in'). now apply (share_a_node s D c d e b t l e' b' t' l' n).
  - (* the epoch between was settled *)
    exfalso. destruct (decided_well y s D i (S e) ltac:(lia)) as (done & _).
    destruct (settled_was_gathered y s D i (S e) done) as [? | some]; [discriminate |].
    destruct (gathered s (S e)) as [g |] eqn:is; [| congruence].
    destruct (gathered_well y s D i (S e) g is) as (_ & _ & hit & [_ ordered until long] & past & _ & old & _).
    destruct (hit _ maj) as (n & n_in & n_wit). apply in_map_iff in n_in as (v & <- & v_in).
    pose proof (of_log _ _ _ _ _ _ p v v_in) as v_log. destruct (for_it _ _ _ _ _ _ p v v_in) as (_ & began_ & _).
    pose proof (not_newer _ _ _ _ _ _ p v v_in). specialize (old v v_log n_wit ltac:(lia)).
    pose proof (votes_past y s D i v v_log). apply (not_outlived s c e b t l (by_wait g) h long); lia.
Qed.

End Exclusion.

(* At no moment are two clients inside the validity of a lock on the same resource, also while the list
   of members changes. *)
Theorem exclusion_across_changes : forall y, well_formed y -> obeys y -> clocks_run y ->
  forall s, reachable y s ->
  forall c d x, has_lock y s c x -> has_lock y s d x -> c = d.
Proof.
  intros y well rules clocks s reached c d x [in_c of_c] [in_d of_d].
  destruct (reachable_invariant y well rules s reached) as [D i].
  pose proof (meaning_reachable y well rules s reached) as m.
  destruct (inside_holder y s c m in_c) as (e & b & t & l & h).
  destruct (inside_holder y s d m in_d) as (e' & b' & t' & l' & h').
  destruct (le_lt_dec e e') as [order | order].
  - apply (one_holder y well clocks s D c d e b t l e' b' t' l'); auto. congruence.
  - symmetry. apply (one_holder y well clocks s D d c e' b' t' l' e b t l); auto; [congruence | lia].
Qed.
