(* SPDX-License-Identifier: BSD-2-Clause

   Locks while the list of members changes: what nodes keep, whatever data they lose. After an epoch was
   decided, a majority of it never goes back to an earlier one; after it was gathered to settle it, the
   witnesses never vote for the one before. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipLocks.
Import ListNotations.
Open Scope Z_scope.

Record well_formed (y : system) : Prop := {
  time_goes_forward : forall m n, (m <= n)%nat -> time_at y m <= time_at y n;
  one_first : NoDup (first y);
}.

Definition obeys (y : system) : Prop := forall r, drops y r = false.

Record clocks_run (y : system) : Prop := {
  of_clients : forall c t t', t <= t' ->
    (million - client_ppm y) * (t' - t) - million * client_error y
    <= million * (client_clock y c t' - client_clock y c t);
  of_agents : forall a t t', t <= t' ->
    million * (agent_clock y a t' - agent_clock y a t) <= (million + agent_ppm y) * (t' - t) + million * agent_error y;
  of_servers : forall n l t t', t <= t' ->
    million * (server_clock y n l t' - server_clock y n l t) <= (million + server_ppm y) * (t' - t) + million * server_error y;
  drift_is_enough : drift_covers (drift_ppm y) (drift_fixed y) (client_ppm y) (server_ppm y)
                                 (client_error y) (server_error y);
  wait_is_enough : drift_ppm y <= million /\ client_ppm y <= million /\ 0 <= drift_ppm y /\ 0 <= million + agent_ppm y /\
    (million + agent_ppm y) * (million - drift_ppm y) <= (million - client_ppm y) * (million + drift_ppm y) /\
    0 <= drift_fixed y /\ client_error y <= drift_fixed y;
}.

Section Lives.
Variable y : system.
Hypothesis well : well_formed y.
Hypothesis rules : obeys y.

Lemma keeps_rule : forall r b, unless y r b = b.
Proof. intros r b. unfold unless. now rewrite rules. Qed.

Local Open Scope nat_scope.

(* These nodes have been at epoch e or later since the moment t, whenever they were intact. *)
Record keep (s : state) (e : nat) (held : list node) (t : nat) : Prop := {
  now_at : forall n e', In n held -> stands (nodes s n) = Intact e' -> e <= e';
  lost_after : forall n, In n held -> stands (nodes s n) = Lost -> t <= born (nodes s n) (life (nodes s n));
  read_at : forall o, In o (reads s) -> In (of_node o) held -> t <= seen_at o -> e <= seen_epoch o;
  voted_at : forall v, In v (votes s) -> In (voter v) held -> t <= cast_at v -> e <= at_epoch v;
}.

Definition hits (held l : list node) : Prop := forall m, majority m l -> exists n, In n m /\ In n held.

(* A majority of each epoch but the newest was at it when the next one was decided. *)
Definition decisions := nat -> list node * nat.

Record good_wait (w : wait) (since until : nat) : Prop := {
  waits_since : since <= wait_from w;
  waits_on : wait_from w <= wait_to w;
  waits_until : wait_to w <= until;
  waits_enough : is_long_enough y w = true;
}.

Record invariant (s : state) (D : decisions) : Prop := {
  lists_one_each : forall e, e <= newest s -> NoDup (list_of s e);
  lists_change : forall e, e < newest s -> one_change (list_of s e) (list_of s (S e));
  decided_well : forall e, e < newest s -> settled s e = true /\ majority (fst (D e)) (list_of s e) /\
    snd (D e) < now s /\ keep s e (fst (D e)) (snd (D e));
  decided_in_order : forall e e', e <= e' -> e' < newest s -> snd (D e) <= snd (D e');
  gathered_well : forall k g, gathered s k = Some g -> k <= newest s /\ 0 < k /\
    hits (witnesses g) (list_of s (pred k)) /\ good_wait (by_wait g) 0 (gathered_at g) /\ gathered_at g < now s /\
    keep s k (witnesses g) (gathered_at g) /\
    (forall v, In v (votes s) -> In (voter v) (witnesses g) -> at_epoch v < k -> cast_at v <= wait_from (by_wait g)) /\
    (forall e, e < k -> snd (D e) <= gathered_at g);
  settled_was_gathered : forall k, settled s k = true -> k = 0 \/ gathered s k <> None;
  epochs_known : forall n e, stands (nodes s n) = Intact e -> e <= newest s;
  reads_known : forall o, In o (reads s) -> seen_epoch o <= newest s;
  votes_past : forall v, In v (votes s) -> began v <= cast_at v < now s;
  reads_past : forall o, In o (reads s) -> seen_at o < now s;
  vote_lives : forall v, In v (votes s) -> in_life v <= life (nodes s (voter v)) /\
    forall l, in_life v < l <= life (nodes s (voter v)) -> cast_at v < born (nodes s (voter v)) l;
  read_lives : forall o, In o (reads s) -> seen_life o <= life (nodes s (of_node o)) /\
    born (nodes s (of_node o)) (seen_life o) <= seen_at o;
  read_now : forall o, In o (reads s) -> seen_life o = life (nodes s (of_node o)) ->
    exists e, stands (nodes s (of_node o)) = Intact e /\ seen_epoch o <= e;
  vote_now : forall v, In v (votes s) -> in_life v = life (nodes s (voter v)) ->
    exists e, stands (nodes s (voter v)) = Intact e;
  votes_after_reads : forall o v, In o (reads s) -> In v (votes s) -> of_node o = voter v -> seen_life o = in_life v ->
    seen_at o <= cast_at v -> seen_epoch o <= at_epoch v;
  votes_waited : forall v, In v (votes s) -> 0 < in_life v -> exists w,
    waited (nodes s (voter v)) (in_life v) = Some w /\ good_wait w (born (nodes s (voter v)) (in_life v)) (cast_at v);
  intact_waited : forall n e, stands (nodes s n) = Intact e -> 0 < life (nodes s n) -> exists w,
    waited (nodes s n) (life (nodes s n)) = Some w /\ good_wait w (born (nodes s n) (life (nodes s n))) (now s);
  born_past : forall n, born (nodes s n) (life (nodes s n)) <= now s;
}.

(* ---- what a step does to nodes ------------------------------------------------------------------- *)

Definition same_stand (a a' : node_state) : Prop :=
  life a' = life a /\ stands a' = stands a /\ born a' = born a /\ waited a' = waited a.

Inductive moves (s s' : state) : Prop :=
| All_stay : (forall n, same_stand (nodes s n) (nodes s' n)) -> moves s s'
| One_loses : forall n held f, nodes s' = update (nodes s) n (with_life (nodes s n) (now s) held f) -> moves s s'
| One_switches : forall n e e', stands (nodes s n) = Intact e -> e < e' <= newest s ->
    nodes s' = update (nodes s) n (with_stand (nodes s n) e') -> moves s s'
| One_recovers : forall n w e f l, stands (nodes s n) = Lost ->
    nodes s' = update (nodes s) n (with_install (nodes s n) w e f) ->
    (exists o, In o l) -> (forall o, In o l -> In o (reads s) /\ seen_epoch o = e /\
      born (nodes s n) (life (nodes s n)) < seen_at o /\ wait_to w <= seen_at o) ->
    majority (map of_node l) (list_of s e) ->
    born (nodes s n) (life (nodes s n)) <= wait_from w -> wait_from w <= wait_to w -> is_long_enough y w = true -> moves s s'.

Record node_step (s s' : state) : Prop := {
  moves_so : moves s s';
  one_later : now s' = S (now s);
  new_reads : forall o, In o (reads s') -> In o (reads s) \/
    stands (nodes s (of_node o)) = Intact (seen_epoch o) /\ seen_life o = life (nodes s (of_node o)) /\
    seen_at o = now s /\ same_stand (nodes s (of_node o)) (nodes s' (of_node o));
  new_votes : forall v, In v (votes s') -> In v (votes s) \/
    stands (nodes s (voter v)) = Intact (at_epoch v) /\ in_life v = life (nodes s (voter v)) /\
    cast_at v = now s /\ began v <= now s /\ same_stand (nodes s (voter v)) (nodes s' (voter v));
}.

Lemma keep_step : forall s s' D e held t, invariant s D -> node_step s s' -> e <= newest s ->
  (majority held (list_of s e) \/ 0 < e /\ hits held (list_of s (pred e))) -> t <= now s ->
  (forall e', e' < e -> snd (D e') <= t) -> keep s e held t -> keep s' e held t.
Proof.
  intros s s' D e held t i st known many past order k.
  assert (reads_ : forall o, In o (reads s') -> In (of_node o) held -> t <= seen_at o -> e <= seen_epoch o).
  { intros o o_in n_in late. destruct (new_reads _ _ st o o_in) as [old | (is & _)]; [now apply (read_at _ _ _ _ k) |].
    now apply (now_at _ _ _ _ k (of_node o)). }
  assert (votes_ : forall v, In v (votes s') -> In (voter v) held -> t <= cast_at v -> e <= at_epoch v).
  { intros v v_in n_in late. destruct (new_votes _ _ st v v_in) as [old | (is & _)]; [now apply (voted_at _ _ _ _ k) |].
    now apply (now_at _ _ _ _ k (voter v)). }
  destruct (moves_so _ _ st) as [same | n held_ f is | n e0 e1 was more is | n w e1 f l was is some each maj since ordered enough].
  - constructor; auto.
    + intros m e' m_in at_. destruct (same m) as (_ & st_ & _). rewrite st_ in at_. now apply (now_at _ _ _ _ k m).
    + intros m m_in at_. destruct (same m) as (li & st_ & bo & _). rewrite st_ in at_. rewrite bo, li. now apply (lost_after _ _ _ _ k).
  - constructor; auto; intros m.
    + intros e' m_in at_. rewrite is in at_. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in at_. discriminate.
      * rewrite update_other in at_ by assumption. now apply (now_at _ _ _ _ k m).
    + intros m_in at_. rewrite is in *. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same. simpl. now rewrite update_same.
      * rewrite update_other in * by assumption. now apply (lost_after _ _ _ _ k).
  - constructor; auto; intros m.
    + intros e' m_in at_. rewrite is in at_. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in at_. inversion at_; subst. pose proof (now_at _ _ _ _ k n e0 m_in was). lia.
      * rewrite update_other in at_ by assumption. now apply (now_at _ _ _ _ k m).
    + intros m_in at_. rewrite is in *. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in at_. discriminate.
      * rewrite update_other in * by assumption. now apply (lost_after _ _ _ _ k).
  - constructor; auto; intros m.
    + intros e' m_in at_. rewrite is in at_. destruct (Nat.eq_dec m n) as [-> | other].
      2: { rewrite update_other in at_ by assumption. now apply (now_at _ _ _ _ k m). }
      rewrite update_same in at_. inversion at_; subst e'. clear at_.
      destruct (le_lt_dec e e1) as [| less]; [assumption | exfalso].
      pose proof (lost_after _ _ _ _ k n m_in was) as late.
      (* a source that has left epoch e1 *)
      assert (left_ : forall e0 held0 t0, keep s e0 held0 t0 -> e1 < e0 -> t0 <= t ->
        (exists z, In z (map of_node l) /\ In z held0) -> False).
      { intros e0 held0 t0 k0 later early (z & z_src & z_in). apply in_map_iff in z_src as (o & <- & o_in).
        destruct (each o o_in) as (o_read & at_ & after_ & _). pose proof (read_at _ _ _ _ k0 o o_read z_in). lia. }
      destruct (Nat.eq_dec (S e1) e) as [<- | later].
      * apply (left_ (S e1) held t k); [lia | lia |]. destruct many as [many | [_ many]].
        -- apply (consecutive_majorities_meet (list_of s e1) (list_of s (S e1))); auto;
             [apply (lists_one_each s D i); lia | apply (lists_change s D i); lia].
        -- now apply many.
      * destruct (decided_well s D i (S e1) ltac:(lia)) as (_ & maj0 & _ & k0).
        apply (left_ (S e1) (fst (D (S e1))) (snd (D (S e1))) k0); [lia | apply order; lia |].
        apply (consecutive_majorities_meet (list_of s e1) (list_of s (S e1))); auto;
          [apply (lists_one_each s D i); lia | apply (lists_change s D i); lia].
    + intros m_in at_. rewrite is in *. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in at_. discriminate.
      * rewrite update_other in * by assumption. now apply (lost_after _ _ _ _ k).
Qed.

(* ---- what becomes of one node -------------------------------------------------------------------- *)

Inductive becomes (s : state) (a a' : node_state) : Prop :=
| Stays : same_stand a a' -> becomes s a a'
| Is_lost : life a' = S (life a) -> stands a' = Lost -> born a' = update (born a) (S (life a)) (now s) ->
    waited a' = waited a -> becomes s a a'
| Is_switched : forall e e', stands a = Intact e -> stands a' = Intact e' -> e < e' <= newest s ->
    life a' = life a -> born a' = born a -> waited a' = waited a -> becomes s a a'
| Has_recovered : forall e w, stands a = Lost -> stands a' = Intact e -> e <= newest s -> life a' = life a ->
    born a' = born a -> waited a' = update (waited a) (life a) (Some w) ->
    good_wait w (born a (life a)) (now s) -> becomes s a a'.

Lemma each_becomes : forall s s' D, invariant s D -> node_step s s' -> forall n, becomes s (nodes s n) (nodes s' n).
Proof.
  intros s s' D i st n. assert (same : same_stand (nodes s n) (nodes s n)) by (repeat split; reflexivity).
  destruct (moves_so _ _ st) as [stay | m held f is | m e0 e1 was more is | m w e1 f l was is (o & o_in) each maj since ordered enough].
  - apply Stays, stay.
  - rewrite is. destruct (Nat.eq_dec n m) as [-> | other]; [rewrite update_same | rewrite update_other by assumption; now apply Stays].
    now apply Is_lost.
  - rewrite is. destruct (Nat.eq_dec n m) as [-> | other]; [rewrite update_same | rewrite update_other by assumption; now apply Stays].
    now apply (Is_switched _ _ _ e0 e1).
  - rewrite is. destruct (Nat.eq_dec n m) as [-> | other]; [rewrite update_same | rewrite update_other by assumption; now apply Stays].
    destruct (each o o_in) as (o_read & at_ & _ & late). pose proof (reads_past s D i o o_read).
    apply (Has_recovered _ _ _ e1 w); auto.
    + rewrite <- at_. now apply (reads_known s D i).
    + constructor; auto. lia.
Qed.

Lemma longer_wait : forall w a b c, good_wait w a b -> b <= c -> good_wait w a c.
Proof. intros w a b c [? ? ? ?] later. constructor; auto. lia. Qed.

Section Node_step.
Variables (s s' : state) (D : decisions).
Hypothesis i : invariant s D.
Hypothesis st : node_step s s'.
Hypothesis new : newest s' = newest s.
Let later : now s' = S (now s) := one_later _ _ st.
Let be := each_becomes s s' D i st.

Lemma lives_go_on : forall n, life (nodes s n) <= life (nodes s' n) /\
  (forall l, l <= life (nodes s n) -> born (nodes s' n) l = born (nodes s n) l) /\
  (forall l, life (nodes s n) < l <= life (nodes s' n) -> born (nodes s' n) l = now s).
Proof.
  intros n. destruct (be n) as [(-> & _ & -> & _) | lf _ bo _ | e e' _ _ _ -> -> _ | e w _ _ _ -> -> _ _].
  - repeat split; intros; lia.
  - rewrite lf, bo. split; [lia |]. split; intros l l_is; [apply update_other; lia |].
    assert (l = S (life (nodes s n))) as -> by lia. now rewrite update_same.
  - repeat split; intros; lia.
  - repeat split; intros; lia.
Qed.

Lemma vote_lives_still : forall v, In v (votes s') -> in_life v <= life (nodes s' (voter v)) /\
  forall l, in_life v < l <= life (nodes s' (voter v)) -> cast_at v < born (nodes s' (voter v)) l.
Proof.
  intros v v_in. destruct (lives_go_on (voter v)) as (more & same & fresh).
  destruct (new_votes _ _ st v v_in) as [old | (_ & in_ & at_ & _ & (lf & _))].
  - destruct (vote_lives s D i v old) as [low each]. split; [lia |]. intros l l_is.
    destruct (le_lt_dec l (life (nodes s (voter v)))) as [known | new_].
    + rewrite same by assumption. apply each. lia.
    + rewrite fresh by lia. now apply (votes_past s D i).
  - split; [lia |]. intros l l_is. rewrite lf in l_is. lia.
Qed.

Lemma read_lives_still : forall o, In o (reads s') -> seen_life o <= life (nodes s' (of_node o)) /\
  born (nodes s' (of_node o)) (seen_life o) <= seen_at o.
Proof.
  intros o o_in. destruct (lives_go_on (of_node o)) as (more & same & fresh).
  destruct (new_reads _ _ st o o_in) as [old | (_ & in_ & at_ & (lf & _ & bo & _))].
  - destruct (read_lives s D i o old) as [low each]. split; [lia |]. now rewrite same.
  - split; [lia |]. rewrite bo, in_, at_. apply (born_past s D i).
Qed.

Lemma read_now_still : forall o, In o (reads s') -> seen_life o = life (nodes s' (of_node o)) ->
  exists e, stands (nodes s' (of_node o)) = Intact e /\ seen_epoch o <= e.
Proof.
  intros o o_in is_now. destruct (new_reads _ _ st o o_in) as [old | (at_ & in_ & _ & (_ & st_ & _))].
  - destruct (read_lives s D i o old) as [low _]. destruct (lives_go_on (of_node o)) as (more & _).
    destruct (read_now s D i o old ltac:(lia)) as (e & at_ & less).
    destruct (be (of_node o)) as [(_ & st_ & _) | lf _ _ _ | e0 e' was st_ ? _ _ _ | e0 w was _ _ _ _ _ _].
    + exists e. split; [congruence | assumption].
    + lia.
    + exists e'. split; [assumption |]. assert (e = e0) by congruence. lia.
    + congruence.
  - exists (seen_epoch o). split; [congruence | lia].
Qed.

Lemma vote_now_still : forall v, In v (votes s') -> in_life v = life (nodes s' (voter v)) ->
  exists e, stands (nodes s' (voter v)) = Intact e.
Proof.
  intros v v_in is_now. destruct (new_votes _ _ st v v_in) as [old | (at_ & in_ & _ & _ & (_ & st_ & _))].
  - destruct (vote_lives s D i v old) as [low _]. destruct (lives_go_on (voter v)) as (more & _).
    destruct (vote_now s D i v old ltac:(lia)) as (e & at_).
    destruct (be (voter v)) as [(_ & st_ & _) | lf _ _ _ | e0 e' was st_ ? _ _ _ | e0 w was _ _ _ _ _ _].
    + exists e. congruence.
    + lia.
    + eauto.
    + congruence.
  - exists (at_epoch v). congruence.
Qed.

Lemma votes_waited_still : forall v, In v (votes s') -> 0 < in_life v -> exists w,
  waited (nodes s' (voter v)) (in_life v) = Some w /\ good_wait w (born (nodes s' (voter v)) (in_life v)) (cast_at v).
Proof.
  intros v v_in positive. destruct (lives_go_on (voter v)) as (more & same & fresh).
  destruct (new_votes _ _ st v v_in) as [old | (at_ & in_ & cast & _ & (lf & _ & bo & wa))].
  - destruct (votes_waited s D i v old positive) as (w & is & ok). destruct (vote_lives s D i v old) as [low _].
    exists w. rewrite same by assumption. split; [| assumption].
    destruct (be (voter v)) as [(_ & _ & _ & ->) | _ _ _ -> | e0 e' _ _ _ _ _ -> | e0 w' was _ _ _ _ -> _]; auto.
    destruct (Nat.eq_dec (in_life v) (life (nodes s (voter v)))) as [is_now | other]; [| now rewrite update_other].
    destruct (vote_now s D i v old is_now) as (e & at_). congruence.
  - destruct (intact_waited s D i (voter v) _ at_ ltac:(lia)) as (w & is & ok). exists w.
    rewrite wa, bo, in_, cast. auto.
Qed.

Lemma node_step_keeps : list_of s' = list_of s -> settled s' = settled s -> gathered s' = gathered s -> invariant s' D.
Proof.
  intros li se ga. pose proof later.
  constructor; rewrite ?new, ?li, ?se, ?ga; try apply i.
  - intros e less. destruct (decided_well s D i e less) as (? & ? & ? & k).
    split; [assumption |]. split; [assumption |]. split; [lia |].
    apply (keep_step s s' D); auto; try lia. intros e' less'. apply (decided_in_order s D i); lia.
  - intros k g is. destruct (gathered_well s D i k g is) as (? & ? & hit & w & past & kp & votes_ & order).
    split; [assumption |]. split; [assumption |]. split; [assumption |]. split; [assumption |]. split; [lia |].
    split; [apply (keep_step s s' D); auto; lia |]. split; [| assumption].
    intros v v_in n_in low. destruct (new_votes _ _ st v v_in) as [old | (at_ & _)]; [auto |].
    pose proof (now_at _ _ _ _ kp (voter v) _ n_in at_). lia.
  - intros n e at_. destruct (be n) as [(_ & st_ & _) | _ st_ _ _ | e0 e' _ st_ ? _ _ _ | e0 w _ st_ ? _ _ _ _]; rewrite st_ in at_.
    + now apply (epochs_known s D i n).
    + discriminate.
    + inversion at_; subst. lia.
    + inversion at_; subst. lia.
  - intros o o_in. destruct (new_reads _ _ st o o_in) as [old | (at_ & _)]; [now apply (reads_known s D i) |].
    now apply (epochs_known s D i (of_node o)).
  - intros v v_in. destruct (new_votes _ _ st v v_in) as [old | (_ & _ & at_ & first & _)]; [| lia].
    pose proof (votes_past s D i v old). lia.
  - intros o o_in. destruct (new_reads _ _ st o o_in) as [old | (_ & _ & at_ & _)]; [| lia].
    pose proof (reads_past s D i o old). lia.
  - exact vote_lives_still.
  - exact read_lives_still.
  - exact read_now_still.
  - exact vote_now_still.
  - intros o v o_in v_in one same_life early.
    destruct (new_reads _ _ st o o_in) as [old_o | (at_o & _ & seen_ & _)],
             (new_votes _ _ st v v_in) as [old_v | (at_ & in_ & _)].
    + now apply (votes_after_reads s D i o v).
    + destruct (read_now s D i o old_o ltac:(congruence)) as (e & at_o & less).
      rewrite one in at_o. assert (e = at_epoch v) by congruence. lia.
    + pose proof (votes_past s D i v old_v). lia.
    + rewrite one in at_o. assert (seen_epoch o = at_epoch v) by congruence. lia.
  - exact votes_waited_still.
  - intros n e at_ positive. destruct (be n) as [(lf & st_ & bo & wa) | lf st_ _ _ | e0 e' was st_ _ lf bo wa | e0 w was st_ _ lf bo wa ok].
    + rewrite st_ in at_. rewrite lf, bo, wa in *. destruct (intact_waited s D i n e at_ positive) as (w & is & ok).
      exists w. split; [assumption |]. apply longer_wait with (now s); [assumption | lia].
    + congruence.
    + rewrite lf, bo, wa in *. destruct (intact_waited s D i n e0 was positive) as (w & is & ok).
      exists w. split; [assumption |]. apply longer_wait with (now s); [assumption | lia].
    + rewrite lf, bo, wa in *. exists w. rewrite update_same. split; [reflexivity |].
      apply longer_wait with (now s); [assumption | lia].
  - intros n. destruct (be n) as [(-> & _ & -> & _) | lf _ bo _ | e e' _ _ _ -> -> _ | e w _ _ _ -> -> _ _];
      try (pose proof (born_past s D i n); lia).
    rewrite lf, bo, update_same. lia.
Qed.

End Node_step.

(* ---- every step ---------------------------------------------------------------------------------- *)

Lemma picked : forall (A : Type) (l : list A) places p, pick l places = Some p -> forall o, In o p -> In o l.
Proof.
  intros A l places. unfold pick. induction places as [| i places IH]; simpl; intros p ok o o_in.
  - inversion ok; subst. contradiction.
  - destruct (nth_error l i) eqn:at_i; [| discriminate]. destruct (all_some (map (nth_error l) places)); [| discriminate].
    inversion ok; subst. destruct o_in as [<- | o_in]; [now apply nth_error_In in at_i | eauto].
Qed.

Definition same_epochs (s s' : state) : Prop := newest s' = newest s /\ list_of s' = list_of s /\
  settled s' = settled s /\ gathered s' = gathered s.

Definition decides_or_settles (ev : event) : bool :=
  match ev with Decides _ _ | Gathers _ _ | Marks _ => true | _ => false end.

Ltac plain := first [reflexivity | assumption | left; reflexivity | repeat split].

Lemma stands_still : forall a, same_stand a a.
Proof. repeat split. Qed.

(* A step that changes one node at most, which stays in its life and its epoch, and may be seen. *)
Lemma stay : forall s u n a l, nodes u = update (nodes s) n a \/ nodes u = nodes s -> same_stand (nodes s n) a ->
  now u = now s -> reads u = l ++ reads s ->
  l = [] \/ (exists e f, stands (nodes s n) = Intact e /\ l = [observe s n e f]) ->
  votes u = votes s -> same_epochs s u -> node_step s (next u) /\ same_epochs s (next u).
Proof.
  intros s v n a l nd same no re which vo ep.
  assert (all : forall m, same_stand (nodes s m) (nodes v m)).
  { intros m. destruct nd as [-> | ->]; [| apply stands_still].
    destruct (Nat.eq_dec m n) as [-> | other]; [now rewrite update_same | rewrite update_other by assumption; apply stands_still]. }
  split; [| exact ep]. constructor; simpl.
  - now apply All_stay.
  - congruence.
  - intros o. rewrite re. intros o_in. apply in_app_iff in o_in as [o_in | ?]; [right | auto].
    destruct which as [-> | (e & f & at_ & ->)]; [contradiction |]. destruct o_in as [<- | []]. simpl. auto.
  - intros w. rewrite vo. auto.
Qed.

(* The same, with a vote of this node. *)
Lemma voted : forall s u n a v e l, nodes u = update (nodes s) n a -> same_stand (nodes s n) a ->
  now u = now s -> reads u = l ++ reads s -> l = [] \/ (exists e f, stands (nodes s n) = Intact e /\ l = [observe s n e f]) ->
  votes u = v :: votes s -> same_epochs s u ->
  voter v = n -> in_life v = life (nodes s n) -> at_epoch v = e -> stands (nodes s n) = Intact e -> cast_at v = now s ->
  began v <= now s -> node_step s (next u) /\ same_epochs s (next u).
Proof.
  intros s w n a v e l nd same no re which vo ep <- in_ <- at_ cast first.
  assert (all : forall m, same_stand (nodes s m) (nodes w m)).
  { intros m. rewrite nd.
    destruct (Nat.eq_dec m (voter v)) as [-> | other]; [now rewrite update_same | rewrite update_other by assumption; apply stands_still]. }
  split; [| exact ep]. constructor; simpl.
  - now apply All_stay.
  - congruence.
  - intros o. rewrite re. intros o_in. apply in_app_iff in o_in as [o_in | ?]; [right | auto].
    destruct which as [-> | (e & f & at_' & ->)]; [contradiction |]. destruct o_in as [<- | []]. simpl. auto.
  - intros v'. rewrite vo. intros [<- | v_in]; [right | auto]. repeat split; auto; rewrite nd, update_same; apply same.
Qed.

Lemma key_stays : forall a x k, same_stand a (with_key a x k).
Proof. repeat split. Qed.

Lemma fence_stays : forall a f, same_stand a (with_fence a f).
Proof. repeat split. Qed.

Lemma step_of_nodes : forall s ev s', step y s ev = Some s' -> decides_or_settles ev = false ->
  node_step s s' /\ same_epochs s s'.
Proof.
  intros s ev s' happens not. unfold step in happens. destruct (act y s ev) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst s'; clear happens.
  assert (ep : same_epochs s s) by (repeat split).
  destruct ev; try discriminate; simpl in acts.
  - (* Passes *) inversion acts; subst. apply (stay u u 0 (nodes u 0) []); auto using stands_still.
  - (* Begins *) destruct (phase_of s c); inversion acts; subst. apply (stay s _ 0 (nodes s 0) []); auto using stands_still.
  - (* Sets *)
    destruct (has_key (nodes s n) (resource_of y c)); [discriminate |]. destruct (phase_of s c); try discriminate;
      apply when_some in acts as [_ ->]; (eapply stay with (n := n) (l := []); [left; reflexivity | apply key_stays | plain ..]).
  - (* Votes *)
    destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |].
    destruct (phase_of s c); try discriminate; apply when_some in acts as [ok ->];
      rewrite !andb_true_iff, Nat.leb_le in ok; destruct ok as ((first & _) & _);
      (eapply voted with (n := n) (e := e); [reflexivity | apply fence_stays | reflexivity | reflexivity | right; eauto | plain ..]).
  - (* Extends *)
    destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |].
    destruct (has_key (nodes s n) (resource_of y c)); [| discriminate]. apply when_some in acts as [ok ->].
    rewrite andb_true_iff, Nat.leb_le in ok. destruct ok as (_ & first).
    eapply voted with (n := n) (e := e) (l := []); [reflexivity | repeat split | plain ..].
  - (* Bumps *) inversion acts; subst. eapply stay with (n := n) (l := []); [left; reflexivity | apply fence_stays | plain ..].
  - (* Deletes *)
    destruct (phase_of s c); try discriminate. destruct (has_key (nodes s n) (resource_of y c)); [| discriminate].
    apply when_some in acts as [_ ->]. eapply stay with (n := n) (l := []); [left; reflexivity | apply key_stays | plain ..].
  - (* Ends *)
    destruct (has_key (nodes s n) x); [| discriminate].
    apply when_some in acts as [_ ->]. eapply stay with (n := n) (l := []); [left; reflexivity | apply key_stays | plain ..].
  - (* Loses *)
    inversion acts; subst. split; [| exact ep]. constructor; simpl; auto. now apply (One_loses s _ n held f).
  - (* Reads *)
    destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |]. inversion acts; subst.
    eapply stay with (n := n); [right; reflexivity | apply stands_still | reflexivity | reflexivity | right; eauto | plain ..].
  - (* Installs *)
    destruct (stands (nodes s n)) eqn:at_; [| discriminate].
    destruct (pick (reads s) places) as [[| o l] |] eqn:ps; try discriminate. apply when_some in acts as [ok ->].
    rewrite !keeps_rule, !andb_true_iff, !forallb_forall in ok.
    destruct ok as ((((((epochs & in_list) & maj) & since) & ordered) & fresh) & long & late).
    rewrite Nat.leb_le in since, ordered. apply is_majority_majority in maj.
    split; [| exact ep]. constructor; simpl; auto.
    eapply (One_recovers s _ n w (seen_epoch o) _ (o :: l));
      [exact at_ | reflexivity | exists o; now left | | exact maj | exact since | exact ordered | exact long].
    intros o0 o0_in. split; [apply (picked _ _ _ _ ps); exact o0_in |]. specialize (epochs o0 o0_in). specialize (fresh o0 o0_in).
    specialize (late o0 o0_in). rewrite Nat.eqb_eq in epochs. rewrite Nat.ltb_lt in fresh. rewrite Nat.leb_le in late. auto.
  - (* Switches *)
    destruct (stands (nodes s n)) as [| old] eqn:at_; [discriminate |]. apply when_some in acts as [ok ->].
    rewrite andb_true_iff, Nat.ltb_lt, Nat.leb_le in ok. split; [| exact ep]. constructor; simpl; auto.
    now apply (One_switches s _ n old e).
  - (* Raises *)
    destruct (stands (nodes s n)) as [| e] eqn:at_; [discriminate |]. destruct (gathered s (newest s)); [| discriminate].
    apply when_some in acts as [_ ->].
    eapply stay with (n := n); [left; reflexivity | apply fence_stays | reflexivity | reflexivity | right; eauto | plain ..].
  - (* Wins *) take_apart acts. apply (stay s _ 0 (nodes s 0) []); auto using stands_still.
  - (* Extended *) take_apart acts. apply (stay s _ 0 (nodes s 0) []); auto using stands_still.
  - (* Cuts *) take_apart acts. apply (stay s _ 0 (nodes s 0) []); auto using stands_still.
  - (* Releases *) inversion acts; subst. apply (stay s _ 0 (nodes s 0) []); auto using stands_still.
Qed.

Lemma is_one_change_one : forall l l', is_one_change l l' = true -> one_change l l'.
Proof.
  intros l l' is. unfold is_one_change in is.
  destruct (filter (fun n => negb (among l n)) l') as [| n [|]] eqn:new_; [| | discriminate].
  - destruct (filter (fun n => negb (among l' n)) l) as [| n [|]] eqn:old; [| | discriminate].
    + destruct (list_eq_dec Nat.eq_dec l' l) as [-> |]; [apply MembershipMajorities.All_stay | discriminate].
    + destruct (list_eq_dec Nat.eq_dec l' (filter (fun m => negb (m =? n)) l)) as [same |]; [| discriminate].
      rewrite same. apply One_removed. assert (In n (filter (fun n => negb (among l' n)) l)) by (rewrite old; now left).
      now apply filter_In in H.
  - destruct (filter (fun n => negb (among l' n)) l) as [|] eqn:old; [| discriminate].
    destruct (list_eq_dec Nat.eq_dec l' (l ++ [n])) as [same |]; [| discriminate].
    rewrite same. apply One_added. assert (n_in : In n (filter (fun n => negb (among l n)) l')) by (rewrite new_; now left).
    apply filter_In in n_in as [_ no]. rewrite <- among_in. destruct (among l n); [discriminate | congruence].
Qed.

Lemma hits_majorities_hits : forall held l, hits_majorities held l = true -> hits held l.
Proof.
  intros held l h m maj. unfold hits_majorities in h. rewrite !andb_true_iff, forallb_forall, Nat.ltb_lt in h.
  destruct h as [[one inside_] more]. apply all_differ_NoDup in one. destruct maj as [one_m of_m enough].
  apply (share l); auto.
  - intros n n_in. apply among_in. auto.
  - unfold node in *. lia.
Qed.

Lemma later_keeps : forall s s' e held t, nodes s' = nodes s -> reads s' = reads s -> votes s' = votes s ->
  keep s e held t -> keep s' e held t.
Proof. intros s s' e held t nd re vo k. constructor; rewrite ?nd, ?re, ?vo; apply k. Qed.

Lemma next_keeps : forall s D, invariant s D -> invariant (next s) D.
Proof.
  intros s D i. apply (node_step_keeps s); auto. constructor; auto. apply All_stay. repeat split.
Qed.

Lemma decides_keeps : forall s l held s' D, invariant s D -> step y s (Decides l held) = Some s' ->
  invariant s' (update D (newest s) (held, now s)).
Proof.
  intros s l held s' D i happens. unfold step in happens. simpl in happens.
  match type of happens with match when ?b ?u with _ => _ end = _ => destruct (when b u) as [v |] eqn:ok end; [| discriminate].
  apply when_some in ok as [ok ->]. inversion happens; subst s'; clear happens.
  rewrite !keeps_rule, !andb_true_iff, forallb_forall in ok. destruct ok as ((((one & differ) & done) & maj) & all_at).
  apply is_one_change_one in one. apply is_majority_majority in maj. apply all_differ_NoDup in differ.
  constructor; simpl; try apply i.
  - intros e less. destruct (Nat.eq_dec e (S (newest s))) as [-> | other]; [now rewrite update_same |].
    rewrite update_other by assumption. apply (lists_one_each s D i). lia.
  - intros e less. rewrite (update_other _ _ _ _ e) by lia. destruct (Nat.eq_dec e (newest s)) as [-> | other].
    + now rewrite update_same.
    + rewrite update_other by lia. apply (lists_change s D i). lia.
  - intros e less. rewrite (update_other _ (list_of s)) by lia. destruct (Nat.eq_dec e (newest s)) as [-> | other].
    + rewrite update_same. simpl. split; [assumption |]. split; [assumption |]. split; [lia |]. constructor; simpl.
      * intros n e' n_in at_. specialize (all_at n n_in). rewrite at_ in all_at. apply Nat.eqb_eq in all_at. lia.
      * intros n n_in at_. specialize (all_at n n_in). rewrite at_ in all_at. discriminate.
      * intros o o_in _ late. pose proof (reads_past s D i o o_in). lia.
      * intros v v_in _ late. pose proof (votes_past s D i v v_in). lia.
    + rewrite update_other by assumption. destruct (decided_well s D i e ltac:(lia)) as (? & ? & ? & k).
      split; [assumption |]. split; [assumption |]. split; [lia |]. now apply (later_keeps s).
  - intros e e' le_ less. destruct (Nat.eq_dec e' (newest s)) as [-> | other].
    + rewrite update_same. destruct (Nat.eq_dec e (newest s)) as [-> | other]; [now rewrite update_same |].
      rewrite update_other by assumption. destruct (decided_well s D i e ltac:(lia)) as (_ & _ & ? & _). simpl. lia.
    + rewrite !update_other by lia. apply (decided_in_order s D i); lia.
  - intros k g is. destruct (gathered_well s D i k g is) as (low & ? & ? & ? & ? & ? & ? & order).
    split; [lia |]. split; [assumption |]. split; [rewrite update_other; [assumption | lia] |].
    split; [assumption |]. split; [lia |]. split; [now apply (later_keeps s) |]. split; [assumption |].
    intros e less. rewrite update_other by lia. now apply order.
  - intros n e at_. pose proof (epochs_known s D i n e at_). lia.
  - intros o o_in. pose proof (reads_known s D i o o_in). lia.
  - intros v v_in. pose proof (votes_past s D i v v_in). lia.
  - intros o o_in. pose proof (reads_past s D i o o_in). lia.
  - intros n e at_ positive. destruct (intact_waited s D i n e at_ positive) as (w & ? & ?). exists w.
    split; [assumption |]. apply longer_wait with (now s); [assumption | lia].
  - intros n. pose proof (born_past s D i n). lia.
Qed.

(* Nodes are seen. *)
Lemma seen_step : forall s l, (forall o, In o l -> stands (nodes s (of_node o)) = Intact (seen_epoch o) /\
    seen_life o = life (nodes s (of_node o)) /\ seen_at o = now s) -> node_step s (next (with_reads s l)).
Proof.
  intros s l each. constructor; auto.
  - apply All_stay. repeat split.
  - simpl. intros o o_in. apply in_app_iff in o_in as [o_in | ?]; [right | auto].
    destruct (each o o_in) as (? & ? & ?). repeat split; auto.
Qed.

Definition witnessed (s : state) (held : list node) : list seen :=
  flat_map (fun n => match stands (nodes s n) with Intact e => [observe s n e (fence (nodes s n))] | Lost => [] end) held.

Lemma witnessed_is : forall s held o, In o (witnessed s held) -> In (of_node o) held /\
  stands (nodes s (of_node o)) = Intact (seen_epoch o) /\ seen_life o = life (nodes s (of_node o)) /\ seen_at o = now s /\
  before o = fence (nodes s (of_node o)) /\ fences o = fence (nodes s (of_node o)).
Proof.
  intros s held o o_in. apply in_flat_map in o_in as (n & n_in & o_in).
  destruct (stands (nodes s n)) eqn:at_; [contradiction |]. destruct o_in as [<- | []]. simpl. repeat split; auto.
Qed.

Lemma gathers_inverted : forall s places w s', step y s (Gathers places w) = Some s' ->
  exists before l held, newest s = S before /\ held = map of_node l /\ (forall o, In o l -> In o (reads s)) /\
    hits held (list_of s before) /\ wait_from w <= wait_to w <= now s /\ is_long_enough y w = true /\
    (forall o, In o l -> seen_at o <= wait_from w /\ seen_life o = life (nodes s (of_node o)) /\ newest s <= seen_epoch o) /\
    (forall n, In n held -> exists e, stands (nodes s n) = Intact e /\ newest s <= e) /\
    s' = next (with_gathering (with_reads s (witnessed s held)) (newest s)
      {| witnesses := held; by_wait := w; gathered_at := now s;
         floor := highest (fun _ => 0%Z) (map (fun n => fence (nodes s n)) held) |}).
Proof.
  intros s places w s' happens. unfold step in happens. destruct (act y s (Gathers places w)) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst s'; clear happens. cbn [act] in acts.
  destruct (newest s) as [| before] eqn:newest_; [discriminate |].
  destruct (pick (reads s) places) as [l |] eqn:ps; [| discriminate]. apply when_some in acts as [ok ->].
  rewrite !keeps_rule, !andb_true_iff, !forallb_forall, !Nat.leb_le in ok.
  destruct ok as (((((enough & ordered) & until) & long) & reads_) & all_at).
  exists before, l, (map of_node l). split; [reflexivity |]. split; [reflexivity |]. split; [now apply (picked _ _ _ _ ps) |].
  split; [now apply hits_majorities_hits |]. split; [auto |]. split; [assumption |]. split; [| split; [| reflexivity]].
  - intros o o_in. specialize (reads_ o o_in).
    rewrite keeps_rule, !andb_true_iff, !Nat.leb_le, Nat.eqb_eq in reads_. destruct reads_ as ((? & ?) & ?). auto.
  - intros n n_in. specialize (all_at n n_in). destruct (stands (nodes s n)) as [| e]; [discriminate |].
    exists e. split; [reflexivity |]. now apply Nat.leb_le.
Qed.

Lemma gathers_keeps : forall s places w s' D, invariant s D -> step y s (Gathers places w) = Some s' -> invariant s' D.
Proof.
  intros s places w s' D i happens.
  destruct (gathers_inverted s places w s' happens)
    as (before & l & held & newest_ & held_is & of_log & enough & [ordered until] & long & reads_ & all_at & ->).
  assert (st : node_step s (next (with_reads s (witnessed s held)))).
  { apply seen_step. intros o o_in. apply witnessed_is in o_in. intuition. }
  assert (i1 : invariant (next (with_reads s (witnessed s held))) D) by (now apply (node_step_keeps s)).
  match goal with |- invariant (next (with_gathering _ _ ?g)) D => set (gath := g) end.
  set (s1 := next (with_reads s (witnessed s held))) in *.
  assert (kept : keep s1 (newest s) held (now s)).
  { constructor; simpl.
    - intros n e' n_in at_. destruct (all_at n n_in) as (e & is & ?). assert (e' = e) as -> by congruence. assumption.
    - intros n n_in at_. destruct (all_at n n_in) as (e & is & ?). congruence.
    - intros o o_in n_in late. apply in_app_iff in o_in as [o_in | o_in].
      + apply witnessed_is in o_in as (_ & at_ & _). destruct (all_at _ n_in) as (e & is & ?).
        assert (seen_epoch o = e) by congruence. lia.
      + pose proof (reads_past s D i o o_in). lia.
    - intros v v_in _ late. pose proof (votes_past s D i v v_in). lia. }
  assert (old_votes : forall v, In v (votes s) -> In (voter v) held -> at_epoch v < newest s -> cast_at v <= wait_from w).
  { intros v v_in n_in low. rewrite held_is in n_in. apply in_map_iff in n_in as (o & same & o_in).
    destruct (reads_ o o_in) as (early & one_life & switched). pose proof (of_log o o_in) as o_read.
    destruct (vote_lives s D i v v_in) as [le_ each]. destruct (read_lives s D i o o_read) as [_ born_]. rewrite same in *.
    destruct (Nat.eq_dec (in_life v) (life (nodes s (voter v)))) as [is_now | former].
    - destruct (le_lt_dec (seen_at o) (cast_at v)) as [late |]; [exfalso | lia].
      pose proof (votes_after_reads s D i o v o_read v_in same ltac:(congruence) late). lia.
    - specialize (each (life (nodes s (voter v))) ltac:(lia)). rewrite one_life in born_. lia. }
  constructor; try apply i1.
  - intros e less. destruct (decided_well s1 D i1 e less) as (? & ? & ? & k).
    split; [assumption |]. split; [assumption |]. split; [assumption |]. now apply (later_keeps s1).
  - simpl. intros k g is. destruct (Nat.eq_dec k (newest s)) as [-> | other].
    + rewrite update_same in is. inversion is; subst g. split; [lia |]. split; [lia |].
      split; [rewrite newest_; exact enough |]. split; [constructor; simpl; auto; lia |]. split; [simpl; lia |].
      split; [now apply (later_keeps s1) |]. split; [exact old_votes |].
      intros e less. simpl. destruct (decided_well s D i e less) as (_ & _ & ? & _). lia.
    + rewrite update_other in is by assumption. destruct (gathered_well s1 D i1 k g is) as (? & ? & ? & ? & ? & ? & ? & ?).
      split; [assumption |]. split; [assumption |]. split; [assumption |]. split; [assumption |]. split; [assumption |].
      split; [now apply (later_keeps s1) |]. split; assumption.
  - simpl. intros k is. destruct (Nat.eq_dec k (newest s)) as [-> | other]; [rewrite update_same; right; discriminate |].
    rewrite update_other by assumption. now apply (settled_was_gathered s D i).
Qed.

Lemma marks_keeps : forall s held s' D, invariant s D -> step y s (Marks held) = Some s' -> invariant s' D.
Proof.
  intros s held s' D i happens. unfold step in happens. simpl in happens.
  destruct (gathered s (newest s)) as [g |] eqn:is; [| discriminate].
  match type of happens with match when ?b ?u with _ => _ end = _ => destruct (when b u) as [v |] eqn:ok end; [| discriminate].
  apply when_some in ok as [_ ->]. inversion happens; subst s'; clear happens. apply next_keeps.
  constructor; simpl; try apply i.
  - intros e less. destruct (decided_well s D i e less) as (? & ? & ? & k). split; [rewrite update_other; [assumption | lia] |].
    split; [assumption |]. split; [assumption |]. now apply (later_keeps s).
  - intros k g' is'. destruct (gathered_well s D i k g' is') as (? & ? & ? & ? & ? & ? & ? & ?).
    split; [assumption |]. split; [assumption |]. split; [assumption |]. split; [assumption |]. split; [assumption |].
    split; [now apply (later_keeps s) |]. split; assumption.
  - intros k. destruct (Nat.eq_dec k (newest s)) as [-> | other]; [intros _; right; congruence |].
    rewrite update_other by assumption. apply (settled_was_gathered s D i).
Qed.

Lemma invariant_initial : invariant (initial y) (fun _ => ([], 0)).
Proof.
  constructor; simpl; try contradiction; try (intros; lia); try (intros; discriminate).
  - intros e less. assert (e = 0) as -> by lia. apply well.
  - intros k is. destruct k; [auto | discriminate].
  - intros n e at_. destruct (among (first y) n); inversion at_. lia.
Qed.

Lemma reachable_invariant : forall s, reachable y s -> exists D, invariant s D.
Proof.
  intros s reached. induction reached as [| s ev s' reached [D i] happens]; [eauto using invariant_initial |].
  destruct (decides_or_settles ev) eqn:which.
  - destruct ev; try discriminate; eauto using decides_keeps, gathers_keeps, marks_keeps.
  - exists D. destruct (step_of_nodes s ev s' happens which) as [st (? & ? & ? & ?)]. now apply (node_step_keeps s).
Qed.

End Lives.
