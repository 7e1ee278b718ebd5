(* SPDX-License-Identifier: BSD-2-Clause

   Locks while the list of members changes: what is known of fences, whatever data nodes lose. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipLocks MembershipLives MembershipExclusion.
Import ListNotations.
Open Scope Z_scope.

Section Tokens.
Variable y : system.
Hypothesis well : well_formed y.
Hypothesis rules : obeys y.

Local Open Scope nat_scope.

(* From these sources a life of a node has taken over its fences, before it had `own`. *)
Record sources (s : state) (n : node) (l : nat) (until : nat) (own : resource -> Z) (from : list seen) (w : wait) (e : nat) : Prop := {
  of_reads : forall r, In r from -> In r (reads s) /\ seen_epoch r = e /\ wait_to w <= seen_at r < until /\
    forall x, (fences r x <= own x)%Z;
  of_majority : majority (map of_node from) (list_of s e);
  of_epoch : e <= newest s;
  after_wait : born (nodes s n) l <= wait_from w <= wait_to w /\ is_long_enough y w = true;
}.

(* These witnesses were seen at the moment t, when epoch e was gathered, with fences of at most f. *)
Record evidence (s : state) (D : decisions) (e : nat) (held : list node) (w : wait) (t : nat) (f : resource -> Z) : Prop := {
  ev_known : 0 < e <= newest s;
  ev_hits : hits held (list_of s (pred e));
  ev_wait : good_wait y w 0 t;
  ev_past : t < now s;
  ev_keep : keep s e held t;
  ev_old : forall v, In v (votes s) -> In (voter v) held -> at_epoch v < e -> cast_at v <= wait_from w;
  ev_order : forall e', e' < e -> snd (D e') <= t;
  ev_seen : forall n, In n held -> exists r, In r (reads s) /\ of_node r = n /\ seen_at r = t /\ forall x, (fences r x <= f x)%Z;
}.

Record granted (s : state) (D : decisions) (g : grant) : Prop := {
  g_majority : majority (map voter (won_by g)) (list_of s (won_epoch g));
  g_known : won_epoch g <= newest s;
  g_decided : forall e, e < won_epoch g -> snd (D e) < won_at g;
  g_past : won_at g < now s;
  g_votes : forall v, In v (won_by g) -> In v (votes s) /\ for_ v = winner g /\ began v = grant_began g /\
    why v = Acquires (token g) /\ at_epoch v <= won_epoch g /\ cast_at v < won_at g;
  g_ttl : (won_ttl g <= ttl_max y)%Z;
  g_valid : (client_clock y (winner g) (time_at y (won_at g)) < validity_end y (winner g) (grant_began g) (won_ttl g))%Z;
}.

(* An acquisition was seen: the fence was raised to its token, strictly. *)
Definition seen_vote (s : state) (v : vote) (t : Z) (o : seen) : Prop :=
  In o (reads s) /\ of_node o = voter v /\ seen_life o = in_life v /\ seen_epoch o = at_epoch v /\ seen_at o = cast_at v /\
  (before o (resource_of y (for_ v)) < t)%Z /\ fences o (resource_of y (for_ v)) = t.

Record law (s : state) (D : decisions) : Prop := {
  fences_keep : forall o o' x, In o (reads s) -> In o' (reads s) -> of_node o = of_node o' -> seen_life o = seen_life o' ->
    seen_at o < seen_at o' -> (fences o x <= before o' x)%Z;
  fences_rise : forall o x, In o (reads s) -> (before o x <= fences o x)%Z;
  fences_now : forall o x, In o (reads s) -> seen_life o = life (nodes s (of_node o)) ->
    (fences o x <= fence (nodes s (of_node o)) x)%Z;
  seen_born : forall o, In o (reads s) -> 0 < seen_life o ->
    exists l w e, sources s (of_node o) (seen_life o) (seen_at o) (before o) l w e;
  now_born : forall n e, stands (nodes s n) = Intact e -> 0 < life (nodes s n) ->
    exists l w e, sources s n (life (nodes s n)) (now s) (fence (nodes s n)) l w e;
  seen_lives : forall o l, In o (reads s) -> seen_life o < l <= life (nodes s (of_node o)) -> seen_at o < born (nodes s (of_node o)) l;
  votes_seen : forall v t, In v (votes s) -> why v = Acquires t -> exists o, seen_vote s v t o;
  seen_decided : forall o e, In o (reads s) -> e < seen_epoch o -> snd (D e) < seen_at o;
  grants_won : forall g, In g (grants s) -> granted s D g;
  gathered_seen : forall e g, gathered s e = Some g -> evidence s D e (witnesses g) (by_wait g) (gathered_at g) (floor g);
  raised_seen : forall n e m, In (n, e, m) (raised s) -> m < now s /\ exists o held w t, In o (reads s) /\ of_node o = n /\
    seen_epoch o = e /\ seen_at o = m /\ t < m /\ evidence s D e held w t (fences o);
  settled_raised : forall e, settled s e = true -> e = 0 \/ exists held, majority held (list_of s e) /\
    forall n, In n held -> exists m, In (n, e, m) (raised s) /\ (e < newest s -> m < snd (D e));
}.

(* ---- a step that decides and settles nothing ----------------------------------------------------- *)

Record token_step (s s' : state) (D : decisions) : Prop := {
  ts_node : node_step y s s';
  ts_epochs : newest s' = newest s /\ list_of s' = list_of s /\ settled s' = settled s;
  ts_more : (forall o, In o (reads s) -> In o (reads s')) /\ (forall v, In v (votes s) -> In v (votes s'));
  ts_fence : forall n x, life (nodes s' n) = life (nodes s n) -> (fence (nodes s n) x <= fence (nodes s' n) x)%Z;
  ts_reads : forall o, In o (reads s') -> In o (reads s) \/
    stands (nodes s (of_node o)) = Intact (seen_epoch o) /\ seen_life o = life (nodes s (of_node o)) /\ seen_at o = now s /\
    life (nodes s' (of_node o)) = life (nodes s (of_node o)) /\
    forall x, before o x = fence (nodes s (of_node o)) x /\ (before o x <= fences o x <= fence (nodes s' (of_node o)) x)%Z;
  ts_votes : forall v t, In v (votes s') -> why v = Acquires t -> In v (votes s) \/ exists o, seen_vote s' v t o;
  ts_install : forall n e, stands (nodes s n) = Lost -> stands (nodes s' n) = Intact e ->
    exists l w e, sources s n (life (nodes s n)) (now s) (fence (nodes s' n)) l w e;
  ts_grants : forall g, In g (grants s') -> In g (grants s) \/ won_at g = now s /\ granted (next s) D g;
  ts_raised : forall n e m, In (n, e, m) (raised s') -> In (n, e, m) (raised s) \/
    m = now s /\ exists o g, In o (reads s') /\ of_node o = n /\ seen_epoch o = e /\ seen_at o = m /\
      gathered s e = Some g /\ forall x, (floor g x <= fences o x)%Z;
  ts_raised_more : forall r, In r (raised s) -> In r (raised s');
}.

Lemma evidence_step : forall s s' D e held w t f, invariant y s D -> token_step s s' D -> evidence s D e held w t f ->
  evidence s' D e held w t f.
Proof.
  intros s s' D e held w t f i st ev. destruct ev as [kn hit wt past kp old order sn].
  destruct (ts_epochs _ _ _ st) as (new & li & _). pose proof (ts_node _ _ _ st) as nst. pose proof (one_later _ _ _ nst).
  constructor; rewrite ?new, ?li; try assumption.
  - lia.
  - apply (keep_step y s s' D e held t i nst); try assumption; [lia | right; split; [lia | assumption] | lia].
  - intros v v_in n_in low. destruct (new_votes _ _ _ nst v v_in) as [was | (at_ & _)]; [auto |].
    pose proof (now_at _ _ _ _ kp (voter v) _ n_in at_). lia.
  - intros n n_in. destruct (sn n n_in) as (r & r_in & ?). exists r. split; [now apply st | assumption].
Qed.

Lemma weaker_evidence : forall s D e held w t f f', evidence s D e held w t f -> (forall x, (f x <= f' x)%Z) ->
  evidence s D e held w t f'.
Proof.
  intros s D e held w t f f' ev le_. destruct ev. constructor; auto.
  intros n n_in. destruct (ev_seen0 n n_in) as (r & ? & ? & ? & below). exists r. repeat split; auto.
  intros x. specialize (below x). specialize (le_ x). lia.
Qed.

Lemma sources_step : forall s s' D n l until own from w e, invariant y s D -> token_step s s' D -> l <= life (nodes s n) ->
  sources s n l until own from w e -> sources s' n l until own from w e.
Proof.
  intros s s' D n l until own from w e i st low src. destruct src as [rd mj ep aw].
  destruct (ts_epochs _ _ _ st) as (new & li & _). constructor; rewrite ?new, ?li; auto.
  - intros r r_in. destruct (rd r r_in) as (? & ? & ? & ?). split; [now apply st | auto].
  - replace (born (nodes s' n) l) with (born (nodes s n) l); [assumption |].
    destruct (each_becomes y s s' D i (ts_node _ _ _ st) n) as [(_ & _ & -> & _) | _ _ -> _ | e0 e' _ _ _ _ -> _ | e0 w0 _ _ _ _ -> _ _];
      auto. rewrite update_other; [reflexivity | lia].
Qed.

Lemma later_sources : forall s n l until until' own own' from w e, sources s n l until own from w e -> until <= until' ->
  (forall x, (own x <= own' x)%Z) -> sources s n l until' own' from w e.
Proof.
  intros s n l until until' own own' from w e [rd mj ep aw] later le_. constructor; auto.
  intros r r_in. destruct (rd r r_in) as (? & ? & ? & below). repeat split; auto; [lia | lia |].
  intros x. specialize (below x). specialize (le_ x). lia.
Qed.

Lemma token_step_keeps : forall s s' D, invariant y s D -> law s D -> token_step s s' D -> gathered s' = gathered s -> law s' D.
Proof.
  intros s s' D i w st ga. pose proof (ts_node _ _ _ st) as nst. pose proof (one_later _ _ _ nst) as later.
  destruct (ts_epochs _ _ _ st) as (new & li & se). destruct (ts_more _ _ _ st) as [more_reads more_votes].
  pose proof (each_becomes y s s' D i nst) as be.
  assert (seen_stay : forall v t o, seen_vote s v t o -> seen_vote s' v t o) by (intros v t o (? & ?); split; auto).
  constructor; rewrite ?new, ?li, ?se, ?ga; try apply w.
  - intros o o' x o_in o_in' one same earlier.
    destruct (ts_reads _ _ _ st o' o_in') as [old' | (_ & in_ & at_ & _ & fs)];
      destruct (ts_reads _ _ _ st o o_in) as [old | (_ & _ & at_o & _)].
    + now apply (fences_keep s D w).
    + pose proof (reads_past y s D i o' old'). lia.
    + destruct (fs x) as [-> _]. rewrite <- one in *. apply (fences_now s D w); [assumption | congruence].
    + lia.
  - intros o x o_in. destruct (ts_reads _ _ _ st o o_in) as [old | (_ & _ & _ & _ & fs)]; [now apply (fences_rise s D w) |].
    destruct (fs x) as [_ ?]. lia.
  - intros o x o_in is_now. destruct (ts_reads _ _ _ st o o_in) as [old | (_ & _ & _ & _ & fs)]; [| destruct (fs x) as [_ ?]; lia].
    destruct (read_lives y s D i o old) as [low _].
    assert (same : life (nodes s' (of_node o)) = life (nodes s (of_node o))).
    { destruct (be (of_node o)) as [(lf & _) | lf _ _ _ | e0 e' _ _ _ lf _ _ | e0 w0 _ _ _ lf _ _ _]; try assumption. lia. }
    pose proof (ts_fence _ _ _ st (of_node o) x same). pose proof (fences_now s D w o x old ltac:(congruence)). lia.
  - intros o o_in positive. destruct (ts_reads _ _ _ st o o_in) as [old | (at_ & in_ & seen_ & same & fs)].
    + destruct (seen_born s D w o old positive) as (l & x & e & src). exists l, x, e.
      destruct (read_lives y s D i o old). now apply (sources_step s s' D).
    + destruct (now_born s D w (of_node o) _ at_ ltac:(lia)) as (l & x & e & src). exists l, x, e.
      rewrite in_, seen_. apply (sources_step s s' D); auto. apply (later_sources _ _ _ _ _ _ _ _ _ _ src); [lia |].
      intros z. destruct (fs z) as [-> _]. lia.
  - intros n e at_ positive. destruct (be n) as [(lf & st_ & _) | _ st_ _ _ | e0 e' was st_ _ lf _ _ | e0 w0 was st_ _ lf _ _ _].
    + rewrite lf, st_ in *. destruct (now_born s D w n e at_ positive) as (l & x & e1 & src). exists l, x, e1.
      apply (sources_step s s' D); auto. apply (later_sources _ _ _ _ _ _ _ _ _ _ src); [lia |]. intros z. now apply st.
    + congruence.
    + rewrite lf in *. destruct (now_born s D w n e0 was positive) as (l & x & e1 & src). exists l, x, e1.
      apply (sources_step s s' D); auto. apply (later_sources _ _ _ _ _ _ _ _ _ _ src); [lia |]. intros z. now apply st.
    + rewrite lf in *. destruct (ts_install _ _ _ st n e0 was st_) as (l & x & e1 & src). exists l, x, e1.
      apply (sources_step s s' D); auto. apply (later_sources _ _ _ _ _ _ _ _ _ _ src); [lia |]. intros z. lia.
  - intros o l o_in l_is. destruct (ts_reads _ _ _ st o o_in) as [old | (_ & in_ & _ & same & _)]; [| lia].
    pose proof (reads_past y s D i o old).
    destruct (be (of_node o)) as [(lf & _ & -> & _) | lf _ -> _ | e0 e' _ _ _ lf -> _ | e0 w0 _ _ _ lf -> _ _]; rewrite lf in *;
      try (now apply (seen_lives s D w)).
    destruct (Nat.eq_dec l (S (life (nodes s (of_node o))))) as [-> | other]; [now rewrite update_same |].
    rewrite update_other by assumption. apply (seen_lives s D w); [assumption | lia].
  - intros v t v_in is. destruct (ts_votes _ _ _ st v t v_in is) as [old | ?]; [| assumption].
    destruct (votes_seen s D w v t old is) as (o & ?). eauto.
  - intros o e o_in low. destruct (ts_reads _ _ _ st o o_in) as [old | (at_ & _ & -> & _)]; [now apply (seen_decided s D w) |].
    pose proof (epochs_known y s D i _ _ at_). destruct (decided_well y s D i e ltac:(lia)) as (_ & _ & ? & _). assumption.
  - intros g g_in. destruct (ts_grants _ _ _ st g g_in) as [old | [_ won]].
    + destruct (grants_won s D w g old) as [? ? ? ? vs ? ?]. constructor; rewrite ?new, ?li; auto; [lia |].
      intros v v_in. destruct (vs v v_in) as (? & ?). auto.
    + destruct won as [? ? ? past vs ? ?]. constructor; rewrite ?new, ?li; auto; [simpl in past; lia |].
      intros v v_in. destruct (vs v v_in) as (? & ?). auto.
  - intros e g is. apply (evidence_step s s' D); auto. now apply (gathered_seen s D w).
  - intros n e m r_in. destruct (ts_raised _ _ _ st n e m r_in) as [old | (-> & o & g & o_in & of_ & at_ & seen_ & is & above_)].
    + destruct (raised_seen s D w n e m old) as (past & o & held & x & t & o_in & ? & ? & ? & ? & ev). split; [lia |].
      exists o, held, x, t. repeat (split; [now auto |]). now apply (evidence_step s s' D).
    + split; [lia |]. pose proof (gathered_seen s D w e g is) as ev. exists o, (witnesses g), (by_wait g), (gathered_at g).
      repeat (split; [now auto |]). split; [apply ev |]. apply (evidence_step s s' D); auto.
      now apply weaker_evidence with (floor g).
  - intros e is. destruct (settled_raised s D w e is) as [? | (held & maj & each)]; [now left | right].
    exists held. split; [assumption |]. intros n n_in. destruct (each n n_in) as (m & r_in & ?). exists m.
    split; [now apply st | assumption].
Qed.

(* ---- every step ---------------------------------------------------------------------------------- *)

(* One node changes at most; nothing is seen, won or raised. *)
Lemma plain_step : forall s u D n a, node_step y s (next u) -> same_epochs s (next u) ->
  nodes u = update (nodes s) n a \/ nodes u = nodes s ->
  (life a = life (nodes s n) -> forall x, (fence (nodes s n) x <= fence a x)%Z) ->
  (stands (nodes s n) = Lost -> stands a = Lost) -> reads u = reads s ->
  (forall v, In v (votes s) -> In v (votes u)) -> (forall v, In v (votes u) -> In v (votes s) \/ why v = Renews) ->
  grants u = grants s -> raised u = raised s -> token_step s (next u) D.
Proof.
  intros s u D n a st (ne & li & se & ga) nd fs lost re more vo gr ra. constructor; simpl; rewrite ?re, ?gr, ?ra; auto.
  - intros m x same. destruct nd as [nd | nd]; rewrite nd in *; [| lia].
    destruct (Nat.eq_dec m n) as [-> | other]; [rewrite update_same in *; auto | rewrite update_other by assumption; lia].
  - intros v t v_in is. destruct (vo v v_in) as [? | no]; [auto | congruence].
  - intros m e was is. exfalso. destruct nd as [nd | nd]; rewrite nd in *; [| congruence].
    destruct (Nat.eq_dec m n) as [-> | other]; [rewrite update_same in *; specialize (lost was); congruence |].
    rewrite update_other in is by assumption. congruence.
Qed.

Lemma bumped_grows : forall f x t z, (f z <= bumped f x t z)%Z.
Proof.
  intros f x t z. unfold bumped. destruct (Nat.eq_dec z x) as [-> | other];
    [rewrite update_same; lia | rewrite update_other by assumption; lia].
Qed.

Lemma highest_is : forall own l, (forall x, (own x <= highest own l x)%Z) /\
  (forall f x, In f l -> (f x <= highest own l x)%Z).
Proof.
  intros own l. unfold highest. induction l as [| g l [IH1 IH2]]; simpl; split.
  - intros x. lia.
  - intros f x [].
  - intros x. specialize (IH1 x). lia.
  - intros f x [<- | f_in]; [lia |]. specialize (IH2 f x f_in). lia.
Qed.

(* One node is seen, and nothing is installed. *)
Lemma seen_of_one : forall s u D n a e f, node_step y s (next u) -> same_epochs s (next u) ->
  nodes u n = a -> (forall m, m <> n -> nodes u m = nodes s m) -> same_stand (nodes s n) a -> stands (nodes s n) = Intact e ->
  reads u = observe s n e f :: reads s -> (forall x, (fence (nodes s n) x <= f x <= fence a x)%Z) ->
  (forall v, In v (votes s) -> In v (votes u)) ->
  (forall v t, In v (votes u) -> why v = Acquires t -> In v (votes s) \/ seen_vote (next u) v t (observe s n e f)) ->
  grants u = grants s ->
  (forall r, In r (raised u) -> In r (raised s) \/ r = (n, e, now s) /\ exists g, gathered s e = Some g /\
    forall x, (floor g x <= f x)%Z) -> (forall r, In r (raised s) -> In r (raised u)) -> token_step s (next u) D.
Proof.
  intros s u D n a e f st (ne & li & se & ga) nd others (lf & sta & _) at_ re fs more vo gr ra more_raised.
  constructor; simpl; auto.
  - split; [intros o o_in; rewrite re; now right | assumption].
  - intros m x same. destruct (Nat.eq_dec m n) as [-> | other].
    + rewrite nd. specialize (fs x). lia.
    + rewrite others by assumption. lia.
  - intros o. rewrite re. intros [<- | o_in]; [right | auto]. simpl. rewrite nd.
    split; [assumption |]. split; [reflexivity |]. split; [reflexivity |]. split; [assumption |].
    intros x. split; [reflexivity | apply fs].
  - intros v t v_in is. destruct (vo v t v_in is); [auto | right; eauto].
  - intros m e' was is. exfalso. destruct (Nat.eq_dec m n) as [-> | other]; [congruence |].
    rewrite others in is by assumption. congruence.
  - rewrite gr. auto.
  - intros n' e' m r_in. destruct (ra _ r_in) as [? | (is & g & gath & above_)]; [auto | right].
    inversion is; subst. split; [reflexivity |]. exists (observe s n e f), g. rewrite re. simpl. repeat split; auto.
Qed.

Lemma act_step : forall s ev u, act y s ev = Some u -> step y s ev = Some (next u).
Proof. intros s ev u acts. unfold step. now rewrite acts. Qed.

Lemma tokens_voted : forall s n c began ttl t u D, invariant y s D -> act y s (Votes n c began ttl t) = Some u -> token_step s (next u) D.
Proof.
  intros s n c began ttl t u D i acts.
  destruct (step_of_nodes y rules s (Votes n c began ttl t) (next u) (act_step _ _ _ acts) eq_refl) as [st ep]. cbn [act] in acts.
  destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |].
  set (f := bumped (fence (nodes s n)) (resource_of y c) t) in *.
  assert (vote_ : (fence (nodes s n) (resource_of y c) < t)%Z /\ exists v,
    u = with_vote (with_reads (with_node s n (with_fence (nodes s n) f)) [observe s n e f]) v /\
    voter v = n /\ in_life v = life (nodes s n) /\ at_epoch v = e /\ cast_at v = now s /\ for_ v = c /\ why v = Acquires t).
  { destruct (phase_of s c); try discriminate; apply when_some in acts as [ok ->];
      rewrite !andb_true_iff, Z.ltb_lt in ok; (split; [apply ok |]); eexists; (split; [reflexivity |]); simpl; auto 10. }
  destruct vote_ as (higher & v & -> & of_ & in_ & epoch_ & cast & for__ & why_).
  eapply seen_of_one with (n := n) (e := e) (f := f);
    [exact st | exact ep | simpl; now rewrite update_same | intros m other; simpl; now rewrite update_other | repeat split
    | exact at_ | reflexivity | | | | reflexivity | |].
  - intros x. simpl. unfold f. split; [apply bumped_grows | lia].
  - simpl. auto.
  - simpl. intros v0 t0 [<- | v_in] is; [right | auto]. assert (t0 = t) as -> by congruence.
    split; [now left |]. rewrite of_, in_, epoch_, cast, for__. simpl. repeat (split; [reflexivity |]). split; [assumption |].
    unfold f, bumped. rewrite update_same. lia.
  - simpl. auto.
  - simpl. auto.
Qed.

Lemma tokens_installed : forall s n places w u D, invariant y s D -> act y s (Installs n places w) = Some u -> token_step s (next u) D.
Proof.
  intros s n places w u D i acts.
  destruct (step_of_nodes y rules s (Installs n places w) (next u) (act_step _ _ _ acts) eq_refl) as [st ep]. cbn [act] in acts.
  destruct (stands (nodes s n)) eqn:at_; [| discriminate].
  destruct (pick (reads s) places) as [[| o l] |] eqn:ps; try discriminate. apply when_some in acts as [ok ->].
  rewrite !(keeps_rule y rules), !andb_true_iff, !forallb_forall in ok.
  destruct ok as ((((((epochs & in_list) & maj) & since) & ordered) & fresh) & long & late).
  rewrite Nat.leb_le in since, ordered. apply is_majority_majority in maj.
  pose proof (picked _ _ _ _ ps) as of_log.
  constructor; simpl; auto.
  - intros m x same_life. destruct (Nat.eq_dec m n) as [-> | other];
      [rewrite update_same; exact (proj1 (highest_is (fence (nodes s n)) (map fences (o :: l))) x)
      | rewrite update_other by assumption; lia].
  - intros m e was is. destruct (Nat.eq_dec m n) as [-> | other];
      [| rewrite update_other in is by assumption; congruence].
    rewrite update_same. exists (o :: l), w, (seen_epoch o). constructor.
    + intros r r_in. pose proof (of_log r r_in) as r_read. specialize (epochs r r_in). specialize (late r r_in).
      apply Nat.eqb_eq in epochs. apply Nat.leb_le in late. pose proof (reads_past y s D i r r_read).
      repeat split; auto. intros x. simpl.
      apply (proj2 (highest_is (fence (nodes s n)) (map fences (o :: l))) (fences r) x). now apply in_map.
    + exact maj.
    + apply (reads_known y s D i). apply of_log. now left.
    + auto.
Qed.

Lemma tokens_raised : forall s n u D, invariant y s D -> act y s (Raises n) = Some u -> token_step s (next u) D.
Proof.
  intros s n u D i acts.
  destruct (step_of_nodes y rules s (Raises n) (next u) (act_step _ _ _ acts) eq_refl) as [st ep]. cbn [act] in acts.
  destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |]. destruct (gathered s (newest s)) as [g |] eqn:gath; [| discriminate].
  apply when_some in acts as [ok ->]. apply Nat.eqb_eq in ok.
  eapply seen_of_one with (n := n) (e := e);
    [exact st | exact ep | simpl; now rewrite update_same | intros m other; simpl; now rewrite update_other | repeat split
    | exact at_ | reflexivity | | | | reflexivity | |].
  - intros x. simpl. lia.
  - simpl. auto.
  - simpl. auto.
  - simpl. intros r [<- | r_in]; [right | auto]. rewrite <- ok in gath. rewrite <- ok. split; [reflexivity |]. exists g.
    split; [assumption |]. intros x. lia.
  - simpl. auto.
Qed.

Lemma tokens_won : forall s c t e places until u D, invariant y s D -> act y s (Wins c t e places until) = Some u -> token_step s (next u) D.
Proof.
  intros s c t e places until u D i acts.
  destruct (step_of_nodes y rules s (Wins c t e places until) (next u) (act_step _ _ _ acts) eq_refl) as [st ep]. cbn [act] in acts.
  destruct (phase_of s c) as [| b tl | |] eqn:at_c; try discriminate. destruct (pick (votes s) places) as [l |] eqn:ps; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite !andb_true_iff, forallb_forall, !Z.leb_le, Z.ltb_lt in ok.
  destruct ok as ((((count & each) & short) & valid) & bound). destruct (counted y rules s e l count) as (low & maj & not_newer_).
  constructor; simpl; auto.
  - intros m x _. lia.
  - intros m e' was is. congruence.
  - intros g [<- | g_in]; [right | auto]. split; [reflexivity |]. constructor; simpl; auto.
    + intros e' less. destruct (decided_well y s D i e' ltac:(lia)) as (_ & _ & ? & _). assumption.
    + intros v v_in. pose proof (picked _ _ _ _ ps v v_in) as v_log. specialize (each v v_in).
      unfold is_acquisition in each. rewrite !andb_true_iff, !Nat.eqb_eq, Z.eqb_eq in each. destruct each as (((? & ?) & ?) & why_).
      destruct (why v) as [t' |] eqn:is; [| discriminate]. apply Z.eqb_eq in why_. subst t'.
      pose proof (votes_past y s D i v v_log). repeat split; auto. lia.
Qed.

Lemma step_of_tokens : forall s ev s' D, invariant y s D -> step y s ev = Some s' -> decides_or_settles ev = false ->
  token_step s s' D.
Proof.
  intros s ev s' D i happens not. destruct (step_of_nodes y rules s ev s' happens not) as [st ep].
  unfold step in happens. destruct (act y s ev) as [u |] eqn:acts; [| discriminate]. inversion happens; subst s'; clear happens.
  assert (same : forall v, u = v -> nodes v = nodes s -> reads v = reads s -> votes v = votes s -> grants v = grants s ->
    raised v = raised s -> token_step s (next u) D).
  { intros v <- nd re vo gr ra. apply (plain_step s u D 0 (nodes s 0)); auto; try (intros; lia); rewrite vo; auto. }
  destruct ev; try discriminate; cbn [act] in acts.
  - (* Passes *) inversion acts; subst. now apply (same u).
  - (* Begins *) destruct (phase_of s c); inversion acts. subst u. now eapply same.
  - (* Sets *)
    destruct (has_key (nodes s n) (resource_of y c)); [discriminate |].
    destruct (phase_of s c); try discriminate; apply when_some in acts as [_ ->];
      (eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | intros; simpl; lia | auto ..]).
  - (* Votes *) exact (tokens_voted s n c began ttl t u D i acts).
  - (* Extends *)
    destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |].
    destruct (has_key (nodes s n) (resource_of y c)); [| discriminate]. apply when_some in acts as [_ ->].
    eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | | | reflexivity | | | reflexivity | reflexivity].
    + intros _ x. simpl. apply bumped_grows.
    + intros was. congruence.
    + simpl. auto.
    + simpl. intros v [<- | ?]; auto.
  - (* Bumps *)
    inversion acts; subst. eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | | auto ..].
    intros _ z. simpl. apply bumped_grows.
  - (* Deletes *)
    destruct (phase_of s c); try discriminate. destruct (has_key (nodes s n) (resource_of y c)); [| discriminate].
    apply when_some in acts as [_ ->].
    eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | intros; simpl; lia | auto ..].
  - (* Ends *)
    destruct (has_key (nodes s n) x); [| discriminate]. apply when_some in acts as [_ ->].
    eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | intros; simpl; lia | auto ..].
  - (* Loses *)
    inversion acts; subst.
    eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | intros lf; simpl in lf; lia | auto ..].
  - (* Reads *)
    destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |]. inversion acts; subst.
    eapply seen_of_one with (n := n) (e := e);
      [exact st | exact ep | reflexivity | reflexivity | repeat split | exact at_ | reflexivity | | auto | auto
      | reflexivity | auto | auto].
    intros x. simpl. lia.
  - (* Installs *) exact (tokens_installed s n places w u D i acts).
  - (* Switches *)
    destruct (stands (nodes s n)) as [| old] eqn:at_; [discriminate |]. apply when_some in acts as [_ ->].
    eapply plain_step with (n := n); [exact st | exact ep | left; reflexivity | intros; simpl; lia | intros; congruence | auto ..].
  - (* Raises *) exact (tokens_raised s n u D i acts).
  - (* Wins *) exact (tokens_won s c t e places until u D i acts).
  - (* Extended *)
    destruct (phase_of s c); try discriminate. destruct (pick (votes s) places); [| discriminate].
    apply when_some in acts as [_ ->]. now eapply same.
  - (* Cuts *)
    destruct (phase_of s c); try discriminate. apply when_some in acts as [_ ->]. now eapply same.
  - (* Releases *) inversion acts. subst u. now eapply same.
Qed.

(* ---- steps that decide or settle ------------------------------------------------------------------ *)

Definition alike (s s' : state) : Prop := now s' = now s /\ newest s' = newest s /\ list_of s' = list_of s /\
  nodes s' = nodes s /\ votes s' = votes s /\ reads s' = reads s.

Lemma sources_alike : forall s s' n l until own from w e, alike s s' -> sources s n l until own from w e ->
  sources s' n l until own from w e.
Proof. intros s s' n l until own from w e (_ & ne & li & nd & _ & re) [? ? ? ?]. constructor; rewrite ?ne, ?li, ?nd, ?re; auto. Qed.

Lemma evidence_alike : forall s s' D e held w t f, alike s s' -> evidence s D e held w t f -> evidence s' D e held w t f.
Proof.
  intros s s' D e held w t f (no & ne & li & nd & vo & re) [? ? ? ? ? ? ? ?].
  constructor; rewrite ?no, ?ne, ?li, ?vo, ?re; auto. now apply (later_keeps s).
Qed.

Lemma granted_alike : forall s s' D g, alike s s' -> granted s D g -> granted s' D g.
Proof. intros s s' D g (no & ne & li & nd & vo & re) [? ? ? ? ? ? ?]. constructor; rewrite ?no, ?ne, ?li, ?vo; auto. Qed.

Lemma law_alike : forall s s' D, law s D -> alike s s' -> grants s' = grants s -> raised s' = raised s ->
  (forall e g, gathered s' e = Some g -> gathered s e = Some g \/
    evidence s D e (witnesses g) (by_wait g) (gathered_at g) (floor g)) ->
  (forall e, settled s' e = true -> settled s e = true \/ exists held, majority held (list_of s e) /\
    forall n, In n held -> exists m, In (n, e, m) (raised s) /\ (e < newest s -> m < snd (D e))) -> law s' D.
Proof.
  intros s s' D w al gr ra ga se. pose proof al as (no & ne & li & nd & vo & re).
  constructor; rewrite ?no, ?ne, ?li, ?nd, ?vo, ?re, ?gr, ?ra; try apply w.
  - intros o o_in positive. destruct (seen_born s D w o o_in positive) as (l & x & e & src). exists l, x, e. now apply (sources_alike s).
  - intros n e at_ positive. destruct (now_born s D w n e at_ positive) as (l & x & e1 & src). exists l, x, e1. now apply (sources_alike s).
  - intros v t v_in is. destruct (votes_seen s D w v t v_in is) as (o & sv). exists o. unfold seen_vote in *. now rewrite re.
  - intros g g_in. apply (granted_alike s); auto. now apply (grants_won s D w).
  - intros e g is. apply (evidence_alike s); auto. destruct (ga e g is); auto. now apply (gathered_seen s D w).
  - intros n e m r_in. destruct (raised_seen s D w n e m r_in) as (past & o & held & x & t & o_in & ? & ? & ? & ? & ev).
    split; [assumption |].
    exists o, held, x, t. repeat (split; [now auto |]). now apply (evidence_alike s).
  - intros e is. destruct (se e is) as [old | ?]; [| auto]. now apply (settled_raised s D w).
Qed.

Lemma law_next : forall s D, invariant y s D -> law s D -> law (next s) D.
Proof.
  intros s D i w. apply (token_step_keeps s); auto. apply (plain_step s s D 0 (nodes s 0)); auto; try (intros; lia).
  - constructor; auto. apply All_stay. repeat split.
  - repeat split.
Qed.

Lemma gathers_law : forall s places w s' D, invariant y s D -> law s D -> step y s (Gathers places w) = Some s' -> law s' D.
Proof.
  intros s places w s' D i lw happens. pose proof (gathers_keeps y rules s places w s' D i happens) as i'.
  destruct (gathers_inverted y rules s places w s' happens)
    as (b & l & held & newest_ & held_is & of_log & enough & [ordered until] & long & reads_ & all_at & is).
  set (s1 := next (with_reads s (witnessed s held))).
  assert (st : node_step y s s1).
  { apply seen_step. intros o o_in. apply witnessed_is in o_in. intuition. }
  assert (lw1 : law s1 D).
  { apply (token_step_keeps s); auto. constructor; simpl; auto.
    - split; [intros o o_in; apply in_or_app |]; auto.
    - intros n x _. lia.
    - intros o o_in. apply in_app_iff in o_in as [o_in | ?]; [right | auto].
      apply witnessed_is in o_in as (_ & ? & ? & ? & b_ & f_). repeat (split; [now auto |]).
      intros x. rewrite b_, f_. split; [reflexivity | lia].
    - intros n e was at_. congruence. }
  apply (law_alike s1); auto; rewrite is; simpl; auto; [repeat split |].
  intros e g gath. destruct (Nat.eq_dec e (newest s)) as [-> | other]; [right | rewrite update_other in gath by assumption; auto].
  rewrite update_same in gath. inversion gath; subst g. simpl.
  assert (mine : gathered s' (newest s) = Some {| witnesses := held; by_wait := w; gathered_at := now s;
    floor := highest (fun _ => 0%Z) (map (fun n => fence (nodes s n)) held) |}) by (rewrite is; simpl; now rewrite update_same).
  destruct (gathered_well y s' D i' _ _ mine) as (low & positive & hit & wt & past & kp & old & order). rewrite is in *. simpl in *.
  constructor; simpl; auto.
  - now apply (later_keeps (next (with_gathering (with_reads s (witnessed s held)) (newest s)
      {| witnesses := held; by_wait := w; gathered_at := now s;
         floor := highest (fun _ => 0%Z) (map (fun n => fence (nodes s n)) held) |}))).
  - intros n n_in. destruct (all_at n n_in) as (e & at_ & _). exists (observe s n e (fence (nodes s n))).
    split; [| split; [reflexivity |]; split; [reflexivity |]].
    + apply in_or_app. left. apply in_flat_map. exists n. split; [assumption |]. rewrite at_. now left.
    + intros x. apply (proj2 (highest_is (fun _ => 0%Z) (map (fun n => fence (nodes s n)) held))).
      simpl. apply (in_map (fun n => fence (nodes s n)) held n n_in).
Qed.

Lemma marks_law : forall s held s' D, invariant y s D -> law s D -> step y s (Marks held) = Some s' -> law s' D.
Proof.
  intros s held s' D i w happens. pose proof (marks_keeps y s held s' D i happens) as i'.
  unfold step in happens. destruct (act y s (Marks held)) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst s'; clear happens. cbn [act] in acts. destruct (gathered s (newest s)) as [g |] eqn:is; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite !(keeps_rule y rules), andb_true_iff, forallb_forall in ok.
  destruct ok as [maj all_raised]. apply is_majority_majority in maj.
  apply (law_alike (next s)); [now apply law_next | repeat split | reflexivity | reflexivity | simpl; auto |].
  simpl. intros e done. destruct (Nat.eq_dec e (newest s)) as [-> | other]; [right | rewrite update_other in done by assumption; auto].
  exists held. split; [assumption |]. intros n n_in. specialize (all_raised n n_in).
  apply existsb_exists in all_raised as ([[n' e'] m] & r_in & same). rewrite andb_true_iff, !Nat.eqb_eq in same. destruct same as [-> ->].
  exists m. split; [assumption | lia].
Qed.

Lemma decides_law : forall s l held s' D, invariant y s D -> law s D -> step y s (Decides l held) = Some s' ->
  law s' (update D (newest s) (held, now s)).
Proof.
  intros s l held s' D i w happens.
  unfold step in happens. destruct (act y s (Decides l held)) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst s'; clear happens. cbn [act] in acts. apply when_some in acts as [_ ->].
  set (D' := update D (newest s) (held, now s)).
  assert (lists : forall e, e <= newest s -> update (list_of s) (S (newest s)) l e = list_of s e)
    by (intros e low; apply update_other; lia).
  assert (earlier : forall e, e < newest s -> D' e = D e) by (intros e low; apply update_other; lia).
  assert (src_on : forall n l0 until own from x e, sources s n l0 until own from x e ->
    sources (next (with_epoch s l)) n l0 until own from x e).
  { intros n l0 until own from x e [? ? ? ?]. constructor; simpl; auto; first [lia | now rewrite lists]. }
  assert (ev_on : forall e h x t f, evidence s D e h x t f -> evidence (next (with_epoch s l)) D' e h x t f).
  { intros e h x t f [[? ?] ? ? ? ? ? order ?]. constructor; simpl; auto; try lia.
    - rewrite lists by lia. assumption.
    - now apply (later_keeps s).
    - intros e' less. rewrite earlier by lia. auto. }
  constructor; simpl; try apply w.
  - intros o o_in positive. destruct (seen_born s D w o o_in positive) as (l0 & x & e & src). exists l0, x, e. auto.
  - intros n e at_ positive. destruct (now_born s D w n e at_ positive) as (l0 & x & e1 & src). exists l0, x, e1.
    apply src_on. apply (later_sources _ _ _ _ _ _ _ _ _ _ src); [lia | intros; lia].
  - intros o e o_in less. pose proof (reads_known y s D i o o_in). rewrite earlier by lia. now apply (seen_decided s D w).
  - intros g g_in. destruct (grants_won s D w g g_in) as [? ? ? ? ? ? ?].
    constructor; simpl; first [assumption | lia | rewrite lists by lia; assumption | idtac].
    intros e less. rewrite earlier by lia. auto.
  - intros e g is. apply ev_on. now apply (gathered_seen s D w).
  - intros n e m r_in. destruct (raised_seen s D w n e m r_in) as (past & o & h & x & t & o_in & ? & ? & ? & ? & ev). split; [lia |].
    exists o, h, x, t. repeat (split; [now auto |]). now apply ev_on.
  - intros e is. destruct (settled_raised s D w e is) as [? | (h & maj & each)]; [now left | right].
    assert (low : e <= newest s).
    { destruct h as [| n h]; [destruct maj as [_ _ many]; unfold majority_of in many; simpl in many; lia |].
      destruct (each n (or_introl eq_refl)) as (m & r_in & _).
      destruct (raised_seen s D w n e m r_in) as (_ & o & h' & x & t & _ & _ & _ & _ & _ & ev). apply ev. }
    exists h. rewrite lists by assumption. split; [assumption |]. intros n n_in. destruct (each n n_in) as (m & r_in & before_).
    exists m. split; [assumption |]. intros _. destruct (Nat.eq_dec e (newest s)) as [-> | other].
    + unfold D'. rewrite update_same. simpl. now apply (raised_seen s D w n (newest s) m).
    + rewrite earlier by lia. apply before_. lia.
Qed.

Lemma law_initial : law (initial y) (fun _ => ([], 0)).
Proof.
  constructor; simpl; try contradiction; try (intros; lia); try (intros; discriminate).
  intros e is. destruct e; [auto | discriminate].
Qed.

Lemma reachable_law : forall s, reachable y s -> exists D, invariant y s D /\ law s D.
Proof.
  intros s reached. induction reached as [| s ev s' reached (D & i & w) happens].
  - eauto using law_initial, invariant_initial.
  - destruct (decides_or_settles ev) eqn:which.
    + destruct ev; try discriminate.
      * exists (update D (newest s) (held, now s)).
        split; [exact (decides_keeps y rules s l held s' D i happens) | now apply (decides_law s l held)].
      * exists D. split; [exact (gathers_keeps y rules s places w0 s' D i happens) | now apply (gathers_law s places w0)].
      * exists D. split; [exact (marks_keeps y s held s' D i happens) | now apply (marks_law s held)].
    + exists D. destruct (step_of_nodes y rules s ev s' happens which) as [st (? & ? & ? & ?)].
      split; [now apply (node_step_keeps y s) |]. apply (token_step_keeps s); auto. now apply (step_of_tokens s ev).
Qed.

(* ---- a token is found ever after ------------------------------------------------------------------ *)

Hypothesis clocks : clocks_run y.

Section Found.
Variable s : state.
Variable D : decisions.
Hypothesis inv : invariant y s D.
Hypothesis lw : law s D.
Variable g : grant.
Hypothesis g_in : In g (grants s).

Let x := resource_of y (winner g).
Let won := grants_won s D lw g g_in.

(* Before the moment N, each majority that is seen at one epoch after g was won knows its token. *)
Definition found_below (N : nat) : Prop := forall V k, (forall o, In o V -> In o (reads s) /\ seen_epoch o = k /\
    won_at g < seen_at o < N) -> majority (map of_node V) (list_of s k) -> k <= newest s ->
  exists o, In o V /\ (token g <= before o x)%Z.

Lemma not_waited_out : forall w, is_long_enough y w = true -> grant_began g <= wait_from w -> wait_from w <= wait_to w ->
  wait_to w <= won_at g -> False.
Proof.
  intros w long first ordered until.
  pose proof (outlived y well clocks (winner g) (grant_began g) (won_ttl g) w (won_at g) long first ordered until (g_ttl _ _ _ won)).
  pose proof (g_valid _ _ _ won). lia.
Qed.

(* The voters of g. *)
Lemma voter_seen : forall n, In n (map voter (won_by g)) -> exists o v, In o (reads s) /\ of_node o = n /\
  seen_at o < won_at g /\ grant_began g <= seen_at o /\ fences o x = token g /\
  In v (votes s) /\ voter v = n /\ at_epoch v <= won_epoch g /\ cast_at v = seen_at o.
Proof.
  intros n n_in. apply in_map_iff in n_in as (v & of_v & v_in).
  destruct (g_votes _ _ _ won v v_in) as (v_log & for__ & began_ & why_ & epoch_ & cast).
  destruct (votes_seen s D lw v (token g) v_log why_) as (o & o_in & of_o & _ & _ & at_ & _ & is).
  pose proof (votes_past y s D inv v v_log). rewrite for__ in is. exists o, v.
  repeat split; auto; try congruence; lia.
Qed.

Lemma began_before_won : grant_began g < won_at g.
Proof.
  destruct (won_by g) as [| v l] eqn:is.
  - pose proof (many _ _ (g_majority _ _ _ won)) as enough. rewrite is in enough. unfold majority_of in enough. simpl in enough. lia.
  - destruct (voter_seen (voter v)) as (o & v' & _ & _ & ? & ? & _); [rewrite is; now left | lia].
Qed.

(* From one observation of a node to a later one. *)
Lemma carries : forall q o N, found_below N -> seen_at o <= N -> In q (reads s) -> In o (reads s) -> of_node q = of_node o ->
  seen_at q < seen_at o -> grant_began g <= seen_at q -> won_at g < seen_at o -> (token g <= fences q x)%Z ->
  (token g <= before o x)%Z.
Proof.
  intros q o N found upto q_in o_in one earlier first late has.
  destruct (read_lives y s D inv q q_in) as [low_q born_q]. destruct (read_lives y s D inv o o_in) as [low_o _].
  rewrite one in *. destruct (lt_eq_lt_dec (seen_life q) (seen_life o)) as [[former | same] | wrong].
  - destruct (seen_born s D lw o o_in ltac:(lia)) as (l & w & e & [rd mj ep ([since ordered] & long)]).
    pose proof (seen_lives s D lw q (seen_life o) q_in) as ended. rewrite one in ended. specialize (ended ltac:(lia)).
    destruct (found l e) as (r & r_in & known_).
    + intros r r_in. destruct (rd r r_in) as (r_read & at_ & when_ & _). split; [assumption |]. split; [assumption |].
      split; [| lia]. destruct (le_lt_dec (seen_at r) (won_at g)) as [early |]; [exfalso | assumption].
      apply (not_waited_out w long); lia.
    + assumption.
    + assumption.
    + destruct (rd r r_in) as (r_read & _ & _ & below). specialize (below x). pose proof (fences_rise s D lw r x r_read). lia.
  - pose proof (fences_keep s D lw q o x q_in o_in one same earlier). lia.
  - exfalso. pose proof (seen_lives s D lw o (seen_life q) o_in ltac:(lia)). lia.
Qed.

(* What is gathered to settle a later epoch includes the token. *)
Lemma floor_has : forall N, found_below N -> forall j, won_epoch g < j -> forall held w t f, evidence s D j held w t f -> t <= N ->
  won_at g < t /\ (token g <= f x)%Z.
Proof.
  intros N found. induction j as [j IH] using lt_wf_ind. intros later held w t f [[pos low] hit wt past kp old order sn] upto.
  pose proof wt as [_ ordered until long].
  destruct (Nat.eq_dec (pred j) (won_epoch g)) as [is | not].
  - (* the epoch after the one by which g was won: its witnesses voted for g before the wait *)
    destruct (hit (map voter (won_by g))) as (n & n_in & n_wit); [rewrite is; apply won |].
    destruct (voter_seen n n_in) as (p & v & p_in & of_p & p_before & p_first & p_has & v_in & of_v & v_epoch & v_cast).
    assert (after_won : won_at g < t).
    { destruct (le_lt_dec t (won_at g)) as [early |]; [exfalso | assumption]. rewrite <- of_v in n_wit.
      specialize (old v v_in n_wit ltac:(lia)). apply (not_waited_out w long); lia. }
    split; [assumption |]. destruct (sn n n_wit) as (r & r_in & of_r & r_at & below). specialize (below x).
    pose proof (fences_rise s D lw r x r_in).
    assert ((token g <= before r x)%Z); [| lia].
    apply (carries p r N found); auto; try congruence; lia.
  - (* the epoch before was settled: its witnesses meet those on which the fences were raised *)
    destruct (decided_well y s D inv (pred j) ltac:(lia)) as (done & _).
    destruct (settled_raised s D lw (pred j) done) as [? | (h & maj & each)]; [lia |].
    destruct (hit h maj) as (n & n_in & n_wit). destruct (each n n_in) as (m & m_in & m_before). specialize (m_before ltac:(lia)).
    destruct (raised_seen s D lw n (pred j) m m_in) as (_ & q & held' & w' & t' & q_in & of_q & _ & q_at & t_before & ev).
    specialize (order (pred j) ltac:(lia)).
    destruct (IH (pred j) ltac:(lia) ltac:(lia) held' w' t' (fences q) ev ltac:(lia)) as [after_won q_has].
    split; [lia |]. destruct (sn n n_wit) as (r & r_in & of_r & r_at & below). specialize (below x).
    pose proof (fences_rise s D lw r x r_in). pose proof began_before_won.
    assert ((token g <= before r x)%Z); [| lia].
    apply (carries q r N found); auto; try congruence; lia.
Qed.

Lemma found_always : forall N, found_below N.
Proof.
  induction N as [N IH] using lt_wf_ind. intros V k each maj low.
  pose proof (g_known _ _ _ won) as known_. pose proof began_before_won as first.
  destruct (le_lt_dec k (S (won_epoch g))) as [near | far].
  - destruct (le_lt_dec (won_epoch g) (S k)) as [close | former].
    + (* the majorities share a node *)
      assert (meet : exists n, In n (map of_node V) /\ In n (map voter (won_by g))).
      { pose proof (g_majority _ _ _ won) as maj_g. destruct (lt_eq_lt_dec k (won_epoch g)) as [[less | ->] | more].
        - assert (is : won_epoch g = S k) by lia. rewrite is in maj_g.
          apply (consecutive_majorities_meet (list_of s k) (list_of s (S k))); auto;
            [apply (lists_one_each y s D inv); lia | apply (lists_change y s D inv); lia].
        - now apply (majorities_meet (list_of s (won_epoch g))).
        - assert (k = S (won_epoch g)) as -> by lia.
          destruct (consecutive_majorities_meet (list_of s (won_epoch g)) (list_of s (S (won_epoch g)))
            (map voter (won_by g)) (map of_node V)) as (n & ? & ?); auto; [| | eauto];
            [apply (lists_one_each y s D inv); lia | apply (lists_change y s D inv); lia]. }
      destruct meet as (n & n_in & n_won). apply in_map_iff in n_in as (o & of_o & o_in).
      destruct (each o o_in) as (o_read & _ & o_late & o_below).
      destruct (voter_seen n n_won) as (p & v & p_in & of_p & p_before & p_first & p_has & _).
      exists o. split; [assumption |].
      apply (carries p o (seen_at o) (IH (seen_at o) o_below)); auto; try congruence; lia.
    + (* a majority has left that epoch *)
      exfalso. destruct (decided_well y s D inv (S k) ltac:(lia)) as (_ & maj0 & _ & k0).
      pose proof (g_decided _ _ _ won (S k) ltac:(lia)) as early.
      destruct (consecutive_majorities_meet (list_of s k) (list_of s (S k)) (map of_node V) (fst (D (S k)))) as (n & n_in & n_left);
        auto; [apply (lists_one_each y s D inv); lia | apply (lists_change y s D inv); lia |].
      apply in_map_iff in n_in as (o & <- & o_in). destruct (each o o_in) as (o_read & at_ & late & _).
      pose proof (read_at _ _ _ _ k0 o o_read n_left ltac:(lia)). lia.
  - (* the fences were raised when the epoch before was settled *)
    destruct (decided_well y s D inv (pred k) ltac:(lia)) as (done & _).
    destruct (settled_raised s D lw (pred k) done) as [? | (h & maj_h & each_h)]; [lia |].
    assert (meet : exists n, In n h /\ In n (map of_node V)).
    { apply (consecutive_majorities_meet (list_of s (pred k)) (list_of s (S (pred k)))); auto;
        [apply (lists_one_each y s D inv); lia | apply (lists_change y s D inv); lia |].
      now replace (S (pred k)) with k by lia. }
    destruct meet as (n & n_h & n_in). apply in_map_iff in n_in as (o & of_o & o_in).
    destruct (each o o_in) as (o_read & at_ & late & o_below).
    destruct (each_h n n_h) as (m & m_in & m_before). specialize (m_before ltac:(lia)).
    destruct (raised_seen s D lw n (pred k) m m_in) as (_ & q & held & w & t & q_in & of_q & _ & q_at & t_before & ev).
    pose proof (seen_decided s D lw o (pred k) o_read ltac:(lia)).
    destruct (floor_has (seen_at o) (IH (seen_at o) ltac:(lia)) (pred k) ltac:(lia) held w t (fences q) ev ltac:(lia)) as [after_won q_has].
    exists o. split; [assumption |].
    apply (carries q o (seen_at o) (IH (seen_at o) o_below)); auto; try congruence; lia.
Qed.

End Found.
End Tokens.

(* All votes of this grant are of the epoch by which it was counted. *)
Definition of_one_epoch (g : grant) : Prop := forall v, In v (won_by g) -> at_epoch v = won_epoch g.

(* If one lock was acquired before the attempt for another one on the same resource began, its token is
   lower, also if the list of members has changed between, however often. *)
Theorem tokens_grow_across_changes : forall y, well_formed y -> obeys y -> clocks_run y ->
  forall s, reachable y s ->
  forall g g', In g (grants s) -> In g' (grants s) -> of_one_epoch g' ->
  resource_of y (winner g) = resource_of y (winner g') ->
  (won_at g < grant_began g')%nat -> token g < token g'.
Proof.
  intros y well rules clocks s reached g g' g_in g'_in one same later.
  destruct (reachable_law y well rules s reached) as (D & i & w).
  pose proof (grants_won y s D w g' g'_in) as won'.
  assert (all_seen : forall l, (forall v, In v l -> In v (won_by g')) -> exists V, map of_node V = map voter l /\
    forall o, In o V -> In o (reads s) /\ seen_epoch o = won_epoch g' /\ (won_at g < seen_at o < won_at g')%nat /\
      before o (resource_of y (winner g)) < token g').
  { induction l as [| v l IH]; intros of_g'; [exists []; simpl; tauto |].
    destruct IH as (V & is & each); [intros; apply of_g'; now right |].
    pose proof (of_g' v (or_introl eq_refl)) as v_in.
    destruct (g_votes _ _ _ _ won' v v_in) as (v_log & for__ & began_ & why_ & _ & cast).
    destruct (votes_seen y s D w v (token g') v_log why_) as (o & o_in & of_o & _ & epoch_ & at_ & less & _).
    pose proof (votes_past y s D i v v_log). rewrite for__, <- same in less.
    exists (o :: V). simpl. split; [congruence |]. intros o' [<- | o'_in]; [| auto].
    split; [assumption |]. split; [rewrite epoch_; now apply one |]. split; [lia | assumption]. }
  destruct (all_seen (won_by g') ltac:(auto)) as (V & is & each).
  destruct (found_always y well clocks s D i w g g_in (won_at g') V (won_epoch g')) as (o & o_in & known_).
  - intros o o_in. destruct (each o o_in) as (? & ? & ? & _). auto.
  - rewrite is. apply won'.
  - apply won'.
  - destruct (each o o_in) as (_ & _ & _ & less). lia.
Qed.
