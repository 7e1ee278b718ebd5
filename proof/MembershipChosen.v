(* SPDX-License-Identifier: BSD-2-Clause

   Membership changes: of each epoch at most one list of members is ever decided.

   The invariant speaks of what a majority once had and keeps: after a majority has promised a ballot,
   each of these nodes that is intact has at least this ballot, or is at a later epoch; and the same
   for what a majority has accepted. A node that lost its data keeps it too, because it takes it over
   from a majority, which shares a node with the first one. *)
Require Import Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities.
Import ListNotations.

(* ---- what happens, as relations ---------------------------------------------------------------- *)

(* The record is of this epoch with at least b (of its ballot, or of its accepted ballot), or of a later one. *)
Definition above (f : record -> nat) (e b : nat) (r : record) : Prop := e < epoch r \/ epoch r = e /\ b <= f r.

(* What a write may make of a record. *)
Definition rises (r r' : record) : Prop :=
  epoch r < epoch r' \/ epoch r = epoch r' /\ ballot r <= ballot r' /\ accepted_ballot r <= accepted_ballot r'.

(* What a node takes over that has recovered from these sources. *)
Definition collects (l : list seen) (r' : record) : Prop :=
  (exists o, In o l) /\
  (forall o, In o l -> epoch (shown o) = epoch r' /\ members (shown o) = members r' /\
    ballot (shown o) <= ballot r' /\ accepted_ballot (shown o) <= accepted_ballot r').

(* What a step does to nodes. *)
Inductive touches (s s' : state) : Prop :=
| None_is_touched : record_of s' = record_of s -> lost_at s' = lost_at s -> log s' = log s -> touches s s'
| One_is_read : forall n r, record_of s n = Some r -> record_of s' = record_of s -> lost_at s' = lost_at s ->
    log s' = {| at_node := n; moment := now s; shown := r |} :: log s -> touches s s'
| One_is_written : forall n r r', record_of s n = Some r -> record_of s' = update (record_of s) n (Some r') ->
    nonce r' = now s -> rises r r' -> lost_at s' = lost_at s -> log s' = log s -> touches s s'
| One_is_lost : forall n, record_of s' = update (record_of s) n None -> lost_at s' = update (lost_at s) n (now s) ->
    log s' = log s -> touches s s'
| One_is_installed : forall n l r', record_of s n = None -> record_of s' = update (record_of s) n (Some r') ->
    nonce r' = now s -> (forall o, In o l -> In o (log s) /\ lost_at s n < moment o) -> collects l r' ->
    majority (map at_node l) (members r') -> lost_at s' = lost_at s -> log s' = log s -> touches s s'.

Section Chosen.
Variable y : system.
Hypothesis rules : obeys y.
Hypothesis one_first : NoDup (first y).

(* ---- the invariant ----------------------------------------------------------------------------- *)

(* An operator that has proposed this. *)
Definition proposes (s : state) (p : operator) (q : command) (held : list node) (c : change) : Prop :=
  asked s p = Some q /\ proposed s p = Some (held, c).

(* What was accepted was proposed. *)
Definition backed (s : state) (r : record) : Prop := forall b c, accepted r = Some (b, c) ->
  exists p q held, proposes s p q held c /\ of_epoch q = epoch r /\ number q = b.

Definition fine (s : state) (r : record) : Prop :=
  In (epoch r, members r) (decided s) /\ accepted_ballot r <= ballot r /\ backed s r.

(* Since the moment t these nodes have at least this, whenever they are intact. *)
Record keep (s : state) (f : record -> nat) (e b : nat) (held : list node) (t : nat) : Prop := {
  now_have : forall n r, In n held -> record_of s n = Some r -> above f e b r;
  lost_since : forall n, In n held -> record_of s n = None -> t <= lost_at s n;
  had_since : forall o, In o (log s) -> In (at_node o) held -> t <= moment o -> above f e b (shown o);
}.

(* Each earlier epoch has been proposed to. *)
Definition comes_after (s : state) (e t : nat) : Prop := forall e', e' < e ->
  exists p q held c, proposes s p q held c /\ of_epoch q = e' /\ proposed_at s p <= t.

Record invariant (s : state) : Prop := {
  decided_one_each : forall e l, In (e, l) (decided s) -> NoDup l;
  decided_once : forall e l l', In (e, l) (decided s) -> In (e, l') (decided s) -> l = l';
  decided_from : forall e l, In (e, l) (decided s) -> e = 0 /\ l = first y \/
    exists p q held c, proposes s p q held c /\ chosen_by s p <> None /\ e = S (of_epoch q) /\
      changed y c (base q) = Some l;
  records_fine : forall n r, record_of s n = Some r -> fine s r /\ nonce r < now s;
  seen_fine : forall o, In o (log s) -> fine s (shown o) /\ moment o < now s;
  asked_fine : forall p q, asked s p = Some q -> In (of_epoch q, base q) (decided s);
  asked_positive : forall p q, asked s p = Some q -> 0 < number q;
  proposed_was_asked : forall p x, proposed s p = Some x -> asked s p <> None;
  chosen_was_proposed : forall p held, chosen_by s p = Some held -> exists q h c, proposes s p q h c;
  chosen_decided : forall p q held c h l, proposes s p q h c -> chosen_by s p = Some held ->
    changed y c (base q) = Some l -> In (S (of_epoch q), l) (decided s);
  promised : forall p n r0, promise_of s p n = Some r0 -> exists q, asked s p = Some q /\
    epoch r0 = of_epoch q /\ ballot r0 = number q /\ accepted_ballot r0 < number q /\ nonce r0 < now s /\
    (forall r, record_of s n = Some r -> nonce r = nonce r0 -> r = r0);
  promised_own : forall p p' n r r', promise_of s p n = Some r -> promise_of s p' n = Some r' ->
    nonce r = nonce r' -> p = p';
  accepts : forall p n k, accepted_at s p n = Some k -> exists q held c, proposes s p q held c /\ k < now s /\
    (forall r, record_of s n = Some r -> nonce r = k ->
      epoch r = of_epoch q /\ ballot r = number q /\ accepted r = Some (number q, c));
  proposed_fine : forall p q held c, proposes s p q held c ->
    majority held (base q) /\ proposed_at s p < now s /\ comes_after s (of_epoch q) (proposed_at s p) /\
    keep s ballot (of_epoch q) (number q) held (proposed_at s p);
  (* The promise of another operator with the same ballot is no longer there. *)
  no_second : forall p q held c p' q' n r r', proposes s p q held c -> In n held -> p' <> p ->
    asked s p' = Some q' -> of_epoch q' = of_epoch q -> number q' = number q ->
    promise_of s p' n = Some r' -> record_of s n = Some r -> nonce r <> nonce r';
  one_proposal : forall p q held c p' q' held' c', proposes s p q held c -> proposes s p' q' held' c' ->
    of_epoch q = of_epoch q' -> number q = number q' -> p = p';
  chosen_fine : forall p q held c h, proposes s p q h c -> chosen_by s p = Some held ->
    majority held (base q) /\ proposed_at s p <= chosen_at s p < now s /\
    keep s accepted_ballot (of_epoch q) (number q) held (chosen_at s p);
  later_propose_same : forall p q held c h p' q' h' c', proposes s p q h c -> chosen_by s p = Some held ->
    proposes s p' q' h' c' -> of_epoch q = of_epoch q' -> number q < number q' -> c' = c;
}.

(* ---- consequences ------------------------------------------------------------------------------ *)

Lemma chosen_agree : forall s, invariant s -> forall p q h c held p' q' h' c' held',
  proposes s p q h c -> chosen_by s p = Some held -> proposes s p' q' h' c' -> chosen_by s p' = Some held' ->
  of_epoch q = of_epoch q' -> c = c'.
Proof.
  intros s i p q h c held p' q' h' c' held' p_ chosen p_' chosen' same.
  destruct (lt_eq_lt_dec (number q) (number q')) as [[less | equal] | more].
  - symmetry. eapply (later_propose_same s i); eassumption.
  - assert (p = p') as <- by (eapply (one_proposal s i); eassumption).
    destruct p_ as [_ p_], p_' as [_ p_']. congruence.
  - eapply (later_propose_same s i); [exact p_' | eassumption | exact p_ | congruence | assumption].
Qed.

Lemma decided_change : forall s, invariant s -> forall e l l',
  In (e, l) (decided s) -> In (S e, l') (decided s) -> one_change l l'.
Proof.
  intros s i e l l' at_e at_next.
  destruct (decided_from s i _ _ at_next) as [[? _] | (p & q & held & c & [p_ _] & _ & is & change)]; [discriminate |].
  inversion is; subst. pose proof (asked_fine s i p q p_) as base_in.
  rewrite (decided_once s i _ _ _ at_e base_in). now apply changed_is_one with y c.
Qed.

(* Each epoch before a decided one was decided, and proposed to. *)
Lemma decided_before : forall s, invariant s -> forall e l, In (e, l) (decided s) ->
  forall e', e' < e -> exists p q held c, proposes s p q held c /\ of_epoch q = e' /\ chosen_by s p <> None.
Proof.
  intros s i. induction e as [| e IH]; intros l in_ e' less; [lia |].
  destruct (decided_from s i _ _ in_) as [[? _] | (p & q & held & c & p_ & chosen & is & change)]; [discriminate |].
  inversion is; subst. destruct (Nat.eq_dec e' (of_epoch q)) as [-> | other].
  - exists p, q, held, c. auto.
  - apply (IH (base q)); [| lia]. now apply (asked_fine s i p), p_.
Qed.

Lemma no_promise_passes : forall s, invariant s -> forall p q held c n r, proposes s p q held c -> In n held ->
  record_of s n = Some r -> above ballot (of_epoch q) (number q) r.
Proof.
  intros s i p q held c n r p_ n_in is. destruct (proposed_fine s i p q held c p_) as (_ & _ & _ & k).
  now apply (now_have _ _ _ _ _ _ k n).
Qed.

(* ---- a majority keeps what it had --------------------------------------------------------------- *)

Lemma above_rises : forall f e b r r', f = ballot \/ f = accepted_ballot -> rises r r' ->
  above f e b r -> above f e b r'.
Proof.
  intros f e b r r' is [later | (same & more & more_acc)] [above_ | [at_ has]]; unfold above;
    destruct is as [-> | ->]; lia.
Qed.

(* No majority is read at an earlier epoch after the moment t. *)
Lemma keep_step : forall s s' f e b held t l, invariant s -> touches s s' ->
  f = ballot \/ f = accepted_ballot -> In (e, l) (decided s) -> majority held l -> t < now s ->
  comes_after s e t -> keep s f e b held t ->
  (forall n r', In n held -> record_of s n = None -> record_of s' n = Some r' ->
    In (epoch r', members r') (decided s)) ->
  keep s' f e b held t.
Proof.
  intros s s' f e b held t l i touch is in_l maj past before k installed.
  destruct touch as [recs lost lg | n r has recs lost lg | n r r' has recs fresh rise lost lg
                    | n recs lost lg | n srcs r' none recs fresh read coll src_maj lost lg].
  - constructor; rewrite ?recs, ?lost, ?lg; apply k.
  - constructor; rewrite ?recs, ?lost, ?lg; try apply k.
    intros o [<- | o_in] n_in late; simpl in *; [now apply (now_have _ _ _ _ _ _ k n) | now apply k].
  - constructor; rewrite ?recs, ?lost, ?lg; try apply k.
    + intros m r0 m_in is0. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in is0. inversion is0; subst. apply above_rises with r; auto.
        now apply (now_have _ _ _ _ _ _ k n).
      * rewrite update_other in is0 by assumption. now apply (now_have _ _ _ _ _ _ k m).
    + intros m m_in is0. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in is0. discriminate.
      * rewrite update_other in is0 by assumption. now apply (lost_since _ _ _ _ _ _ k m).
  - constructor; rewrite ?recs, ?lost, ?lg; try apply k.
    + intros m r0 m_in is0. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in is0. discriminate.
      * rewrite update_other in is0 by assumption. now apply (now_have _ _ _ _ _ _ k m).
    + intros m m_in is0. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same. lia.
      * rewrite update_other in * by assumption. now apply (lost_since _ _ _ _ _ _ k m).
  - constructor; rewrite ?recs, ?lost, ?lg; try apply k.
    + intros m r0 m_in is0. destruct (Nat.eq_dec m n) as [-> | other].
      2: { rewrite update_other in is0 by assumption. now apply (now_have _ _ _ _ _ _ k m). }
      pose proof is0 as inst. rewrite update_same in is0. inversion is0; subst r0. clear is0.
      rewrite <- recs in inst. pose proof (installed n r' m_in none inst) as dec. clear inst.
      pose proof (lost_since _ _ _ _ _ _ k n m_in none) as since.
      destruct coll as [_ coll].
      (* what a source says that such a majority includes *)
      assert (said : forall f' e0 b0 held0 t0, keep s f' e0 b0 held0 t0 -> t0 <= t ->
        (exists z, In z (map at_node srcs) /\ In z held0) -> exists o, In o srcs /\ above f' e0 b0 (shown o)).
      { intros f' e0 b0 held0 t0 k0 early (z & z_src & z_in). apply in_map_iff in z_src as (o & <- & o_in).
        exists o. split; [assumption |]. destruct (read o o_in). apply (had_since _ _ _ _ _ _ k0); auto. lia. }
      destruct (lt_eq_lt_dec (epoch r') e) as [[less | equal] | more].
      * (* the sources are at an earlier epoch: but a majority of the one after it has left it *)
        exfalso.
        assert (left_ : exists f' b0 l0 held0 t0, In (S (epoch r'), l0) (decided s) /\ majority held0 l0 /\ t0 <= t /\
          keep s f' (S (epoch r')) b0 held0 t0).
        { destruct (Nat.eq_dec (S (epoch r')) e) as [<- | later]; [exists f, b, l, held, t; auto |].
          destruct (before (S (epoch r')) ltac:(lia)) as (p & q & h & c & p_ & at_ & early).
          destruct (proposed_fine s i p q h c p_) as (maj_p & _ & _ & k_p). rewrite at_ in k_p.
          exists ballot, (number q), (base q), h, (proposed_at s p). repeat split; auto; try apply maj_p; try apply k_p.
          rewrite <- at_. now apply (asked_fine s i p), p_. }
        destruct left_ as (f' & b0 & l0 & held0 & t0 & in_l0 & maj0 & early & k0).
        destruct (said _ _ _ _ _ k0 early) as (o & o_in & ab).
        -- apply (consecutive_majorities_meet (members r') l0); auto.
           ++ now apply (decided_one_each s i (epoch r')).
           ++ now apply (decided_change s i (epoch r')).
        -- destruct (coll o o_in) as (at_ & _). unfold above in ab. lia.
      * assert (l = members r') as -> by (apply (decided_once s i e); congruence).
        destruct (said _ _ _ _ _ k (le_n t)) as (o & o_in & ab); [now apply (majorities_meet (members r')) |].
        destruct (coll o o_in) as (at_ & _ & bal & acc). unfold above in *. destruct is as [-> | ->]; lia.
      * left. lia.
    + intros m m_in is0. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in is0. discriminate.
      * rewrite update_other in is0 by assumption. now apply (lost_since _ _ _ _ _ _ k m).
Qed.

(* ---- steps that propose and choose nothing ------------------------------------------------------ *)

Definition new_promise (s s' : state) (p : operator) (n : node) (r : record) : Prop :=
  record_of s' n = Some r /\ nonce r = now s /\
  exists q r1, asked s p = Some q /\ record_of s n = Some r1 /\ epoch r1 = of_epoch q /\ ballot r1 < number q /\
    epoch r = of_epoch q /\ ballot r = number q /\ accepted_ballot r < number q.

Definition new_acceptance (s s' : state) (p : operator) (n : node) (k : nat) : Prop :=
  k = now s /\ exists q held c, proposes s p q held c /\
    forall r, record_of s' n = Some r -> epoch r = of_epoch q /\ ballot r = number q /\ accepted r = Some (number q, c).

Record quiet (s s' : state) : Prop := {
  one_later : now s' = S (now s);
  q_touches : touches s s';
  q_records : forall n r, record_of s' n = Some r -> record_of s n = Some r \/ nonce r = now s /\ fine s r;
  q_asked : forall p q, asked s p = Some q -> asked s' p = Some q;
  q_asks : forall p q, asked s' p = Some q -> asked s p = Some q \/ In (of_epoch q, base q) (decided s) /\ 0 < number q;
  q_promises : forall p n r, promise_of s' p n = Some r -> promise_of s p n = Some r \/ new_promise s s' p n r;
  q_one_promise : forall p p' n r r', new_promise s s' p n r -> promise_of s' p n = Some r ->
    new_promise s s' p' n r' -> promise_of s' p' n = Some r' -> p = p';
  q_acceptances : forall p n k, accepted_at s' p n = Some k -> accepted_at s p n = Some k \/ new_acceptance s s' p n k;
  q_proposed : proposed s' = proposed s;
  q_proposed_at : proposed_at s' = proposed_at s;
  q_chosen_by : chosen_by s' = chosen_by s;
  q_chosen_at : chosen_at s' = chosen_at s;
  q_decided : decided s' = decided s;
}.

Section Quiet.
Variables s s' : state.
Hypothesis i : invariant s.
Hypothesis q_ : quiet s s'.

Lemma proposes_as_before : forall p q h c, proposes s' p q h c <-> proposes s p q h c.
Proof.
  intros p q h c. unfold proposes. rewrite (q_proposed _ _ q_). split; intros [a b]; split; auto.
  - destruct (asked s p) as [q' |] eqn:was; [| now apply (proposed_was_asked s i p) in b].
    apply (q_asked _ _ q_) in was. congruence.
  - now apply (q_asked _ _ q_).
Qed.

Lemma fine_as_before : forall r, fine s r -> fine s' r.
Proof.
  intros r (d & less & b). split; [now rewrite (q_decided _ _ q_) |]. split; [assumption |].
  intros k c is. destruct (b k c is) as (p & q & h & p_ & ?). exists p, q, h. split; [now apply proposes_as_before | assumption].
Qed.

Let later : now s' = S (now s) := one_later _ _ q_.

Lemma comes_after_still : forall e t, comes_after s e t -> comes_after s' e t.
Proof.
  intros e t before e' less. destruct (before e' less) as (p & q & h & c & p_ & ?). exists p, q, h, c.
  rewrite (q_proposed_at _ _ q_). split; [now apply proposes_as_before | assumption].
Qed.
Local Hint Resolve fine_as_before comes_after_still : core.

Lemma majority_keeps : forall f e b held t l, f = ballot \/ f = accepted_ballot -> In (e, l) (decided s) ->
  majority held l -> t < now s -> comes_after s e t -> keep s f e b held t -> keep s' f e b held t.
Proof.
  intros f e b held t l is in_l maj past before k. apply keep_step with (s := s) (l := l); auto; [apply q_ |].
  intros n r' _ none has. destruct (q_records _ _ q_ n r' has) as [? | [_ [? _]]]; [congruence | assumption].
Qed.

Lemma seen_still_fine : forall o, In o (log s') -> fine s' (shown o) /\ moment o < now s'.
Proof.
  intros o o_in.
  assert (o_in' : In o (log s) \/ fine s (shown o) /\ moment o = now s).
  { destruct (q_touches _ _ q_) as [? ? lg | n r has ? ? lg | ? ? ? ? ? ? ? ? lg | ? ? ? lg | ? ? ? ? ? ? ? ? ? ? lg];
      rewrite lg in o_in; auto.
    destruct o_in as [<- | ?]; [right | auto]. simpl. split; [now apply (records_fine s i n) | reflexivity]. }
  destruct o_in' as [old | [? ?]]; [| split; [auto | lia]].
  destruct (seen_fine s i o old). split; [auto | lia].
Qed.

Lemma promised_still : forall p n r0, promise_of s' p n = Some r0 -> exists q, asked s' p = Some q /\
  epoch r0 = of_epoch q /\ ballot r0 = number q /\ accepted_ballot r0 < number q /\ nonce r0 < now s' /\
  (forall r, record_of s' n = Some r -> nonce r = nonce r0 -> r = r0).
Proof.
  intros p n r0 is. destruct (q_promises _ _ q_ p n r0 is) as [old | (has & fresh & q & r1 & a & has1 & at1 & less & ? & ? & ?)].
  + destruct (promised s i p n r0 old) as (q & a & ? & ? & ? & past & only). exists q. split; [now apply q_ |].
    repeat split; auto; [lia |]. intros r has equal.
    destruct (q_records _ _ q_ n r has) as [? | [fresh _]]; [auto | lia].
  + exists q. split; [now apply q_ |]. repeat split; auto; [lia |]. intros r has' _. congruence.
Qed.

Lemma promised_own_still : forall p p' n r r', promise_of s' p n = Some r -> promise_of s' p' n = Some r' ->
  nonce r = nonce r' -> p = p'.
Proof.
  intros p p' n r r' is is' equal.
  destruct (q_promises _ _ q_ p n r is) as [old | new], (q_promises _ _ q_ p' n r' is') as [old' | new'].
  + now apply (promised_own s i p p' n r r').
  + destruct (promised s i p n r old) as (_ & _ & _ & _ & _ & past & _). destruct new' as (_ & fresh & _). lia.
  + destruct (promised s i p' n r' old') as (_ & _ & _ & _ & _ & past & _). destruct new as (_ & fresh & _). lia.
  + now apply (q_one_promise _ _ q_ p p' n r r').
Qed.

Lemma accepts_still : forall p n k, accepted_at s' p n = Some k -> exists q held c, proposes s' p q held c /\ k < now s' /\
  (forall r, record_of s' n = Some r -> nonce r = k ->
    epoch r = of_epoch q /\ ballot r = number q /\ accepted r = Some (number q, c)).
Proof.
  intros p n k is. destruct (q_acceptances _ _ q_ p n k is) as [old | (-> & q & h & c & p_ & only)].
  + destruct (accepts s i p n k old) as (q & h & c & p_ & past & only). exists q, h, c.
    split; [now apply proposes_as_before |]. split; [lia |]. intros r has equal.
    destruct (q_records _ _ q_ n r has) as [? | [fresh _]]; [auto | lia].
  + exists q, h, c. split; [now apply proposes_as_before |]. split; [lia |]. auto.
Qed.

Lemma no_second_still : forall p q held c p' q' n r r', proposes s' p q held c -> In n held -> p' <> p ->
  asked s' p' = Some q' -> of_epoch q' = of_epoch q -> number q' = number q ->
  promise_of s' p' n = Some r' -> record_of s' n = Some r -> nonce r <> nonce r'.
Proof.
  intros p q h c p' q' n r r' p_ n_in other a at_ equal is has.
  apply proposes_as_before in p_. pose proof (no_promise_passes s i p q h c n) as passed.
  destruct (q_promises _ _ q_ p' n r' is) as [old | (_ & _ & q1 & r1 & a1 & has1 & at1 & less & _)].
  + destruct (promised s i p' n r' old) as (q1 & a1 & _ & _ & _ & past & _).
    pose proof (q_asked _ _ q_ p' q1 a1) as a2. assert (q1 = q') as -> by congruence.
    destruct (q_records _ _ q_ n r has) as [was | [fresh _]]; [| lia].
    now apply (no_second s i p q h c p' q' n r r').
  + exfalso. pose proof (q_asked _ _ q_ p' q1 a1) as a2. assert (q1 = q') as -> by congruence.
    destruct (passed r1 p_ n_in has1); lia.
Qed.

Lemma quiet_keeps : invariant s'.
Proof.
  constructor; rewrite ?(q_decided _ _ q_), ?(q_proposed _ _ q_), ?(q_proposed_at _ _ q_), ?(q_chosen_by _ _ q_),
    ?(q_chosen_at _ _ q_); try apply i.
  - intros e l in_. destruct (decided_from s i e l in_) as [? | (p & q & h & c & p_ & ?)]; [auto |].
    right. exists p, q, h, c. split; [now apply proposes_as_before | assumption].
  - intros n r has. destruct (q_records _ _ q_ n r has) as [old | [fresh ok]].
    + destruct (records_fine s i n r old). split; [auto | lia].
    + split; [auto | lia].
  - exact seen_still_fine.
  - intros p q a. destruct (q_asks _ _ q_ p q a) as [old | [? ?]]; [now apply (asked_fine s i p) | assumption].
  - intros p q a. destruct (q_asks _ _ q_ p q a) as [old | [? ?]]; [now apply (asked_positive s i p) | assumption].
  - intros p x is. destruct (asked s p) as [q |] eqn:was; [| now apply (proposed_was_asked s i p) in is].
    apply (q_asked _ _ q_) in was. congruence.
  - intros p held is. destruct (chosen_was_proposed s i p held is) as (q & h & c & p_). exists q, h, c. now apply proposes_as_before.
  - intros p q held c h l p_. apply proposes_as_before in p_. now apply (chosen_decided s i p q held c h).
  - exact promised_still.
  - exact promised_own_still.
  - exact accepts_still.
  - intros p q h c p_. apply proposes_as_before in p_. destruct (proposed_fine s i p q h c p_) as (maj & past & before & k).
    split; [assumption |]. split; [lia |]. split; [auto |].
    apply majority_keeps with (base q); auto. now apply (asked_fine s i p), p_.
  - exact no_second_still.
  - intros p q h c p' q' h' c' p_ p_'. apply proposes_as_before in p_, p_'. now apply (one_proposal s i p q h c p' q' h' c').
  - intros p q held c h p_ ch. apply proposes_as_before in p_. destruct (chosen_fine s i p q held c h p_ ch) as (maj & [not_before past] & k).
    split; [assumption |]. split; [lia |]. apply majority_keeps with (base q); auto; [now apply (asked_fine s i p), p_ |].
    destruct (proposed_fine s i p q h c p_) as (_ & _ & before & _).
    intros e' less. destruct (before e' less) as (p2 & q2 & h2 & c2 & p_2 & ? & early). exists p2, q2, h2, c2.
    split; [assumption |]. split; [assumption | lia].
  - intros p q held c h p' q' h' c' p_ ch p_'. apply proposes_as_before in p_, p_'. now apply (later_propose_same s i p q held c h p' q' h' c').
Qed.

End Quiet.

(* ---- an operator proposes ----------------------------------------------------------------------- *)

Lemma all_some_map : forall (A : Type) (f : nat -> option A) held l, all_some (map f held) = Some l ->
  (forall n, In n held -> exists a, f n = Some a /\ In a l) /\ (forall a, In a l -> exists n, In n held /\ f n = Some a).
Proof.
  intros A f. induction held as [| n held IH]; simpl; intros l is.
  - inversion is; subst. split; simpl; [tauto | intros a []].
  - destruct (f n) as [a |] eqn:at_n; [| discriminate]. destruct (all_some (map f held)) as [l' |]; [| discriminate].
    inversion is; subst. destruct (IH l' eq_refl) as [each only]. split.
    + intros m [<- | m_in]; [exists a; simpl; auto |]. destruct (each m m_in) as (b & ? & ?). exists b. simpl. auto.
    + intros b [<- | b_in]; [exists n; simpl; auto |]. destruct (only b b_in) as (m & ? & ?). exists m. simpl. auto.
Qed.

Lemma highest_accepted_is : forall l,
  (forall r, In r l -> forall b c, accepted r = Some (b, c) -> exists b' c', highest_accepted l = Some (b', c') /\ b <= b') /\
  (forall b c, highest_accepted l = Some (b, c) -> exists r, In r l /\ accepted r = Some (b, c)).
Proof.
  unfold highest_accepted. induction l as [| r l [IH1 IH2]]; simpl; (split; [| intros b c is]); [tauto | discriminate | |].
  - intros r0 [<- | r_in] b c is.
    + rewrite is. simpl. destruct (fold_right _ None l) as [[b' c'] |]; [| eauto].
      destruct (Nat.ltb_spec b' b); [eauto |]. exists b', c'. auto.
    + destruct (IH1 r0 r_in b c is) as (b' & c' & -> & le_). destruct (accepted r) as [[b2 c2] |]; simpl; [| eauto].
      destruct (Nat.ltb_spec b' b2); [| eauto]. exists b2, c2. split; [reflexivity | lia].
  - destruct (fold_right (fun r found => higher_accepted (accepted r) found) None l) as [[b' c'] |] eqn:found;
      destruct (accepted r) as [[b2 c2] |] eqn:own; simpl in is.
    + destruct (b' <? b2); inversion is; subst; [exists r; auto |].
      destruct (IH2 b c eq_refl) as (r0 & ? & ?). exists r0. auto.
    + inversion is; subst. destruct (IH2 b c eq_refl) as (r0 & ? & ?). exists r0. auto.
    + inversion is; subst. exists r. auto.
    + discriminate.
Qed.

Lemma unchanged_is : forall s n k, is_unchanged s n k = true -> exists r, record_of s n = Some r /\ nonce r = k.
Proof.
  intros s n k u. unfold is_unchanged in u. destruct (record_of s n) as [r |]; [| discriminate].
  apply Nat.eqb_eq in u. eauto.
Qed.

Section Proposal.
Variables (s : state) (p : operator) (held : list node) (q : command) (l : list record).
Hypothesis i : invariant s.
Hypothesis a : asked s p = Some q.
Hypothesis not_yet : proposed s p = None.
Hypothesis only : forall r, In r l -> exists n, In n held /\ promise_of s p n = Some r.
Hypothesis maj : majority held (base q).
(* What is in place now. *)
Hypothesis has : forall n, In n held -> exists r, In r l /\ promise_of s p n = Some r /\ record_of s n = Some r /\
  epoch r = of_epoch q /\ ballot r = number q.
Let v := choice y q l.
Let s' := next (with_proposed (with_promises s p (promise_of s p)) p held v).

Lemma same_promises : forall p' n, promise_of s' p' n = promise_of s p' n.
Proof. intros p' n. simpl. unfold update. destruct (Nat.eqb_spec p' p) as [-> |]; reflexivity. Qed.

Lemma proposes_now : proposes s' p q held v.
Proof. split; [assumption | simpl; now rewrite update_same]. Qed.

Lemma proposed_before : forall p' q' h c, proposes s p' q' h c -> proposes s' p' q' h c /\ proposed_at s' p' = proposed_at s p'.
Proof.
  intros p' q' h c [a' is]. destruct (Nat.eq_dec p' p) as [-> | other]; [congruence |].
  split; [split; [assumption |] |]; simpl; now rewrite update_other.
Qed.

Lemma proposes_one_more : forall p' q' h c, proposes s' p' q' h c -> p' = p /\ q' = q /\ h = held /\ c = v \/
  p' <> p /\ proposes s p' q' h c /\ proposed_at s' p' = proposed_at s p'.
Proof.
  intros p' q' h c [a' is]. simpl in a', is. destruct (Nat.eq_dec p' p) as [-> | other].
  - left. rewrite update_same in is. inversion is; subst. repeat split; congruence.
  - right. rewrite update_other in is by assumption. split; [assumption |]. split; [split; assumption |].
    simpl. now rewrite update_other.
Qed.

Lemma fine_still : forall r, fine s r -> fine s' r.
Proof.
  intros r (d & less & b). split; [assumption |]. split; [assumption |]. intros k c is.
  destruct (b k c is) as (p' & q' & h & p_ & ?). exists p', q', h. split; [now apply proposed_before | assumption].
Qed.

Lemma chosen_other : forall p' h, chosen_by s p' = Some h -> p' <> p.
Proof.
  intros p' h is ->. destruct (chosen_was_proposed s i p h is) as (q' & h' & c & _ & is'). congruence.
Qed.

Lemma keep_still : forall f e b h t, keep s f e b h t -> keep s' f e b h t.
Proof. intros f e b h t k. constructor; apply k. Qed.
Local Hint Resolve fine_still keep_still : core.

Lemma each_proposal_is_fine : forall p q held c, proposes s' p q held c ->
  majority held (base q) /\ proposed_at s' p < now s' /\ comes_after s' (of_epoch q) (proposed_at s' p) /\
  keep s' ballot (of_epoch q) (number q) held (proposed_at s' p).
Proof.
  intros p' q' h c p_. destruct (proposes_one_more _ _ _ _ p_) as [(-> & -> & -> & ->) | (other & old & at_)].
  + split; [assumption |]. replace (proposed_at s' p) with (now s) by (simpl; now rewrite update_same).
    split; [simpl; lia |]. split.
    * intros e' less. destruct (decided_before s i _ _ (asked_fine s i p q a) e' less) as (p1 & q1 & h1 & c1 & p_1 & ? & _).
      destruct (proposed_before _ _ _ _ p_1) as [? at1]. exists p1, q1, h1, c1. split; [assumption |]. split; [assumption |].
      rewrite at1. destruct (proposed_fine s i _ _ _ _ p_1) as (_ & ? & _). lia.
    * constructor.
      -- intros n r n_in is. destruct (has n n_in) as (r1 & _ & _ & is1 & ? & ?). simpl in is.
         assert (r = r1) as -> by congruence. right. split; [assumption | lia].
      -- intros n n_in is. destruct (has n n_in) as (r1 & _ & _ & is1 & _). simpl in is. congruence.
      -- intros o o_in _ late. destruct (seen_fine s i o o_in). lia.
  + rewrite at_. destruct (proposed_fine s i _ _ _ _ old) as (? & ? & before & k). split; [assumption |].
    split; [simpl; lia |]. split; [| auto]. intros e' less. destruct (before e' less) as (p1 & q1 & h1 & c1 & p_1 & ? & ?).
    destruct (proposed_before _ _ _ _ p_1) as [? at1]. exists p1, q1, h1, c1. rewrite at1. auto.
Qed.

Lemma no_other_ballot : forall p' q' h c, p' <> p -> proposes s p' q' h c -> of_epoch q' = of_epoch q ->
  number q' = number q -> False.
Proof.
  intros p' q' h c other p_ same equal. destruct (proposed_fine s i _ _ _ _ p_) as (maj' & _).
  assert (base q' = base q) as base_
    by (apply (decided_once s i (of_epoch q)); [rewrite <- same; now apply (asked_fine s i p'), p_ | now apply (asked_fine s i p)]).
  rewrite base_ in maj'. destruct (majorities_meet _ _ _ maj maj') as (n & n_in & n_in').
  destruct (has n n_in) as (r & _ & pr & is & _).
  apply (no_second s i p' q' h c p q n r r); auto.
Qed.

Lemma one_proposal_still : forall p q held c p' q' held' c', proposes s' p q held c -> proposes s' p' q' held' c' ->
  of_epoch q = of_epoch q' -> number q = number q' -> p = p'.
Proof.
  intros p' q' h c p2 q2 h2 c2 p_ p_2 same equal.
  destruct (proposes_one_more _ _ _ _ p_) as [(-> & -> & -> & ->) | (other & old & _)],
           (proposes_one_more _ _ _ _ p_2) as [(-> & -> & -> & ->) | (other2 & old2 & _)].
  + reflexivity.
  + exfalso. apply (no_other_ballot p2 q2 h2 c2); auto.
  + exfalso. apply (no_other_ballot p' q' h c); auto.
  + now apply (one_proposal s i p' q' h c p2 q2 h2 c2).
Qed.

Lemma later_proposes_the_same : forall p q held c h p' q' h' c', proposes s' p q h c -> chosen_by s' p = Some held ->
  proposes s' p' q' h' c' -> of_epoch q = of_epoch q' -> number q < number q' -> c' = c.
Proof.
  intros p1 q1 held1 c1 h1 p' q' h' c' p_1 ch p_' same less. simpl in ch. pose proof (chosen_other p1 held1 ch) as other1.
  destruct (proposes_one_more _ _ _ _ p_1) as [(-> & _) | (_ & old1 & _)]; [congruence |].
  destruct (proposes_one_more _ _ _ _ p_') as [(-> & -> & -> & ->) | (_ & old' & _)].
  2: now apply (later_propose_same s i p1 q1 held1 c1 h1 p' q' h' c').
  destruct (chosen_fine s i _ _ _ _ _ old1 ch) as (maj1 & _ & k1).
  assert (base q1 = base q) as base_
    by (apply (decided_once s i (of_epoch q)); [rewrite <- same; now apply (asked_fine s i p1), old1 | now apply (asked_fine s i p)]).
  rewrite base_ in maj1. destruct (majorities_meet _ _ _ maj maj1) as (n & n_in & n_in1).
  destruct (has n n_in) as (r & r_in & _ & is & at_ & _).
  pose proof (asked_positive s i p1 q1 (proj1 old1)) as positive.
  destruct (now_have _ _ _ _ _ _ k1 n r n_in1 is) as [? | [_ enough]]; [lia |].
  unfold accepted_ballot in enough. destruct (accepted r) as [[b c] |] eqn:acc; [| lia].
  destruct (highest_accepted_is l) as [above_ from].
  destruct (above_ r r_in b c acc) as (b' & c' & high & more).
  assert (v = c') as -> by (unfold v, choice; rewrite rules, high; reflexivity).
  destruct (from b' c' high) as (r2 & r2_in & acc2). destruct (only r2 r2_in) as (n2 & n2_in & pr2).
  destruct (has n2 n2_in) as (r3 & _ & pr3 & is2 & at2 & _). assert (r3 = r2) as -> by congruence.
  destruct (records_fine s i n2 r2 is2) as [(_ & _ & back) _].
  destruct (back b' c' acc2) as (p2 & q2 & h2 & p_2 & at_2 & num2).
  destruct (Nat.eq_dec (number q1) (number q2)) as [equal | differ].
  + assert (p1 = p2) as <- by (apply (one_proposal s i p1 q1 h1 c1 p2 q2 h2 c'); auto; congruence).
    destruct old1 as [_ old1], p_2 as [_ p_2]. congruence.
  + apply (later_propose_same s i p1 q1 held1 c1 h1 p2 q2 h2 c'); auto; [congruence | lia].
Qed.

Lemma proposal_keeps : invariant s'.
Proof.
  constructor; try apply i.
  - intros e l0 in_. destruct (decided_from s i e l0 in_) as [? | (p' & q' & h & c & p_ & ?)]; [auto |].
    right. exists p', q', h, c. split; [now apply proposed_before | assumption].
  - intros n r is. destruct (records_fine s i n r is). split; [auto | simpl; lia].
  - intros o o_in. destruct (seen_fine s i o o_in). split; [auto | simpl; lia].
  - intros p' x is. simpl in is. destruct (Nat.eq_dec p' p) as [-> | other]; [simpl; congruence |].
    rewrite update_other in is by assumption. now apply (proposed_was_asked s i p' x).
  - intros p' h is. destruct (chosen_was_proposed s i p' h is) as (q' & h' & c & p_). exists q', h', c. now apply proposed_before.
  - intros p' q' held' c h l0 p_ ch change. simpl in ch. pose proof (chosen_other p' held' ch) as other.
    destruct (proposes_one_more _ _ _ _ p_) as [(-> & _) | (_ & old & at_)]; [congruence |].
    now apply (chosen_decided s i p' q' held' c h).
  - intros p' n r0 is. rewrite same_promises in is. destruct (promised s i p' n r0 is) as (q' & ? & ? & ? & ? & ? & ?).
    exists q'. repeat split; auto. simpl. lia.
  - intros p' p2 n r r' is is'. rewrite same_promises in is, is'. now apply (promised_own s i p' p2 n).
  - intros p' n k is. destruct (accepts s i p' n k is) as (q' & h & c & p_ & past & ?). exists q', h, c.
    split; [now apply proposed_before |]. split; [simpl; lia | assumption].
  - exact each_proposal_is_fine.
  - intros p' q' h c p2 q2 n r r' p_ n_in other a2 at_ equal is is'. rewrite same_promises in is.
    destruct (proposes_one_more _ _ _ _ p_) as [(-> & -> & -> & ->) | (_ & old & _)].
    + destruct (has n n_in) as (r1 & _ & pr & is1 & _). simpl in is'. assert (r = r1) as -> by congruence.
      intros same. apply other. now apply (promised_own s i p2 p n r' r1).
    + now apply (no_second s i p' q' h c p2 q2 n r r').
  - exact one_proposal_still.
  - intros p' q' held' c h p_ ch. simpl in ch. pose proof (chosen_other p' held' ch) as other.
    destruct (proposes_one_more _ _ _ _ p_) as [(-> & _) | (_ & old & at_)]; [congruence |]. rewrite at_.
    destruct (chosen_fine s i _ _ _ _ _ old ch) as (? & [? ?] & k). split; [assumption |]. split; [simpl; lia | auto].
  - exact later_proposes_the_same.
Qed.

End Proposal.

Lemma Is_promised_keeps : forall s p held s', invariant s -> step y s (Is_promised p held) = Some s' -> invariant s'.
Proof.
  intros s p held s' i happens. unfold step in happens. simpl in happens. rewrite !rules in happens.
  destruct (asked s p) as [q |] eqn:a; [| discriminate]. destruct (proposed s p) eqn:not_yet; [discriminate |].
  destruct (all_some (map (promise_of s p) held)) as [l |] eqn:each_; [| discriminate].
  match type of happens with match when ?b ?u with _ => _ end = _ => destruct (when b u) as [u' |] eqn:ok end; [| discriminate].
  apply when_some in ok as [ok ->]. inversion happens; subst s'; clear happens.
  rewrite (unless_obeyed y _ _ rules), !andb_true_iff in ok. destruct ok as [[maj epochs] looks].
  apply is_majority_majority in maj. rewrite forallb_forall in epochs, looks.
  apply all_some_map in each_ as [each only].
  (* What is in place now. *)
  assert (has : forall n, In n held -> exists r, In r l /\ promise_of s p n = Some r /\ record_of s n = Some r /\
    epoch r = of_epoch q /\ ballot r = number q).
  { intros n n_in. destruct (each n n_in) as (r & pr & r_in). specialize (looks n n_in). rewrite pr in looks.
    apply unchanged_is in looks as (r1 & is & same). destruct (promised s i p n r pr) as (q1 & a1 & at1 & b1 & _ & _ & one).
    assert (q1 = q) as -> by congruence. rewrite (one r1 is same) in is. exists r. auto. }
  now apply proposal_keeps.
Qed.

(* ---- a majority has accepted -------------------------------------------------------------------- *)

Section Acceptance.
Variables (s : state) (p : operator) (held h : list node) (q : command) (c : change) (l : list node).
Hypothesis i : invariant s.
Hypothesis mine : proposes s p q h c.
Hypothesis not_yet : chosen_by s p = None.
Hypothesis change : changed y c (base q) = Some l.
Hypothesis maj : majority held (base q).
Hypothesis has : forall n, In n held -> exists r, record_of s n = Some r /\
  epoch r = of_epoch q /\ ballot r = number q /\ accepted r = Some (number q, c).
Let a : asked s p = Some q := proj1 mine.
Let pr : proposed s p = Some (h, c) := proj2 mine.
Let s' := next (with_chosen s p held (S (of_epoch q), l)).

(* No operator has got a majority's promise for a higher ballot. *)
Lemma highest_ballot_proposed : forall p' q' h' c', proposes s p' q' h' c' -> of_epoch q = of_epoch q' -> number q' <= number q.
Proof.
  intros p' q' h' c' p_' same. destruct (proposed_fine s i _ _ _ _ p_') as (maj' & _ & _ & k).
  assert (base q' = base q) as base_
    by (apply (decided_once s i (of_epoch q)); [rewrite same; now apply (asked_fine s i p'), p_' | now apply (asked_fine s i p)]).
  rewrite base_ in maj'. destruct (majorities_meet _ _ _ maj maj') as (n & n_in & n_in').
  destruct (has n n_in) as (r & is & at_ & num & _).
  destruct (now_have _ _ _ _ _ _ k n r n_in' is); lia.
Qed.

(* So who was chosen before proposed the same. *)
Lemma chosen_before_agrees : forall p' q' h' c' held', proposes s p' q' h' c' -> chosen_by s p' = Some held' ->
  of_epoch q = of_epoch q' -> c' = c.
Proof.
  intros p' q' h' c' held' p_' ch same. pose proof (highest_ballot_proposed p' q' h' c' p_' same).
  destruct (Nat.eq_dec (number q') (number q)) as [equal | less].
  - assert (p' = p) as -> by (apply (one_proposal s i p' q' h' c' p q h c); auto). congruence.
  - symmetry. apply (later_propose_same s i p' q' held' c' h' p q h c); auto. lia.
Qed.

Lemma decided_still : forall d, In d (decided s) -> In d (decided s').
Proof. intros d ?. now right. Qed.
Local Hint Resolve decided_still : core.

Lemma fine_in_new_epoch : forall r, fine s r -> fine s' r.
Proof. intros r (d & less & b). split; [auto |]. split; assumption. Qed.

Lemma keep_in_new_epoch : forall f e b h t, keep s f e b h t -> keep s' f e b h t.
Proof. intros f e b h0 t k. constructor; apply k. Qed.
Local Hint Resolve fine_in_new_epoch keep_in_new_epoch : core.

Lemma list_is_one_change : one_change (base q) l.
Proof. now apply changed_is_one with y c. Qed.

Lemma not_decided_otherwise : forall l0, In (S (of_epoch q), l0) (decided s) -> l0 = l.
Proof.
  intros l0 in_. destruct (decided_from s i _ _ in_) as [[? _] | (p' & q' & h' & c' & p_' & ch & is & change')]; [discriminate |].
  inversion is as [same_]. destruct (chosen_by s p') as [held' |] eqn:ch'; [| congruence].
  assert (base q' = base q) as base_
    by (apply (decided_once s i (of_epoch q)); [rewrite same_; now apply (asked_fine s i p'), p_' | now apply (asked_fine s i p)]).
  assert (c' = c) as -> by (now apply (chosen_before_agrees p' q' h' c' held')). congruence.
Qed.
Local Hint Resolve not_decided_otherwise : core.

Lemma each_choice_is_fine : forall p q held c h, proposes s' p q h c -> chosen_by s' p = Some held ->
  majority held (base q) /\ proposed_at s' p <= chosen_at s' p < now s' /\
  keep s' accepted_ballot (of_epoch q) (number q) held (chosen_at s' p).
Proof.
  intros p' q' held' c' h' p_' ch. simpl in ch. destruct (Nat.eq_dec p' p) as [-> | other].
  + rewrite update_same in ch. inversion ch; subst held'. destruct p_' as [a' pr']. simpl in a', pr'.
    assert (q' = q) as -> by congruence. split; [assumption |].
    replace (chosen_at s' p) with (now s) by (simpl; now rewrite update_same).
    destruct (proposed_fine s i _ _ _ _ mine) as (_ & ? & _ & _). split; [simpl; lia |].
    constructor.
    * intros n r n_in is. destruct (has n n_in) as (r1 & is1 & ? & ? & acc). simpl in is.
      assert (r = r1) as -> by congruence. right. split; [assumption |]. unfold accepted_ballot. rewrite acc. lia.
    * intros n n_in is. destruct (has n n_in) as (r1 & is1 & _). simpl in is. congruence.
    * intros o o_in _ late. destruct (seen_fine s i o o_in). lia.
  + rewrite update_other in ch by assumption.
    replace (chosen_at s' p') with (chosen_at s p') by (simpl; now rewrite update_other).
    destruct (chosen_fine s i _ _ _ _ _ p_' ch) as (? & [? ?] & k). split; [assumption |]. split; [simpl; lia | auto].
Qed.

Lemma acceptance_keeps : invariant s'.
Proof.
  constructor; try apply i.
  - pose proof list_is_one_change. intros e l0 [is | in_]; [| now apply (decided_one_each s i e)]. inversion is; subst.
    apply one_change_NoDup with (base q); [| assumption]. now apply (decided_one_each s i (of_epoch q)), (asked_fine s i p).
  - pose proof not_decided_otherwise as otherwise. intros e l0 l1 [is0 | in0] [is1 | in1]; try (inversion is0; subst); try (inversion is1; subst); auto.
    + symmetry. now apply otherwise.
    + now apply (decided_once s i e).
  - intros e l0 [is | in_].
    + inversion is; subst. right. exists p, q, h, c. split; [assumption |]. split; [| auto].
      simpl. rewrite update_same. discriminate.
    + destruct (decided_from s i e l0 in_) as [? | (p' & q' & h' & c' & p_' & ch & ?)]; [auto |].
      right. exists p', q', h', c'. split; [assumption |]. split; [| assumption]. simpl.
      destruct (Nat.eq_dec p' p) as [-> | other]; [rewrite update_same; discriminate | now rewrite update_other].
  - intros n r is. destruct (records_fine s i n r is). split; [auto | simpl; lia].
  - intros o o_in. destruct (seen_fine s i o o_in). split; [auto | simpl; lia].
  - intros p' q' a'. apply decided_still. now apply (asked_fine s i p').
  - intros p' held' is. simpl in is. destruct (Nat.eq_dec p' p) as [-> | other]; [eauto |].
    rewrite update_other in is by assumption. now apply (chosen_was_proposed s i p' held').
  - intros p' q' held' c' h' l0 p_' ch change'. simpl in ch. destruct (Nat.eq_dec p' p) as [-> | other].
    + destruct p_' as [a' pr']. simpl in a', pr'. left. congruence.
    + rewrite update_other in ch by assumption. right. now apply (chosen_decided s i p' q' held' c' h').
  - intros p' n r0 is. destruct (promised s i p' n r0 is) as (q' & ? & ? & ? & ? & ? & ?).
    exists q'. repeat split; auto. simpl. lia.
  - intros p' n k is. destruct (accepts s i p' n k is) as (q' & h' & c' & p_' & past & ?). exists q', h', c'.
    split; [assumption |]. split; [simpl; lia | assumption].
  - intros p' q' h' c' p_'. destruct (proposed_fine s i _ _ _ _ p_') as (? & ? & ? & ?).
    split; [assumption |]. split; [simpl; lia |]. split; [assumption | auto].
  - exact each_choice_is_fine.
  - intros p1 q1 held1 c1 h1 p' q' h' c' p_1 ch p_' same_ less. simpl in ch. destruct (Nat.eq_dec p1 p) as [-> | other].
    + destruct p_1 as [a1 pr1]. simpl in a1. assert (q1 = q) as -> by congruence.
      pose proof (highest_ballot_proposed p' q' h' c' p_' same_). lia.
    + rewrite update_other in ch by assumption. now apply (later_propose_same s i p1 q1 held1 c1 h1 p' q' h' c').
Qed.

End Acceptance.

Lemma Is_accepted_keeps : forall s p held s', invariant s -> step y s (Is_accepted p held) = Some s' -> invariant s'.
Proof.
  intros s p held s' i happens. unfold step in happens. simpl in happens.
  destruct (asked s p) as [q |] eqn:a; [| discriminate]. destruct (proposed s p) as [[h c] |] eqn:pr; [| discriminate].
  destruct (chosen_by s p) eqn:not_yet; [discriminate |].
  destruct (all_some (map (accepted_at s p) held)) as [ks |] eqn:each_; [| discriminate].
  destruct (changed y c (base q)) as [l |] eqn:change; [| discriminate].
  match type of happens with match when ?b ?u with _ => _ end = _ => destruct (when b u) as [u' |] eqn:ok end; [| discriminate].
  apply when_some in ok as [ok ->]. inversion happens; subst s'; clear happens.
  rewrite (unless_obeyed y _ _ rules), !andb_true_iff in ok. destruct ok as [maj looks].
  apply is_majority_majority in maj. rewrite forallb_forall in looks.
  assert (mine : proposes s p q h c) by (split; assumption).
  assert (has : forall n, In n held -> exists r, record_of s n = Some r /\
    epoch r = of_epoch q /\ ballot r = number q /\ accepted r = Some (number q, c)).
  { intros n n_in. specialize (looks n n_in). destruct (accepted_at s p n) as [k |] eqn:acc; [| discriminate].
    apply unchanged_is in looks as (r & is & same). destruct (accepts s i p n k acc) as (q1 & h1 & c1 & [a1 pr1] & _ & one).
    assert (q1 = q) as -> by congruence. assert (c1 = c) as -> by congruence. exists r. split; [assumption |]. now apply one. }
  now apply acceptance_keeps with h c.
Qed.

(* ---- the other steps ---------------------------------------------------------------------------- *)

Lemma highest_ballot_is : forall l r, In r l -> ballot r <= highest_ballot l.
Proof.
  unfold highest_ballot. induction l as [| r0 l IH]; simpl; intros r; [intros [] |].
  intros [<- | r_in]; [lia |]. specialize (IH r r_in). lia.
Qed.

(* A step that promises and accepts nothing, and begins nothing. *)
Lemma quiet_plain : forall s u, invariant s -> now u = now s -> touches s u ->
  (forall n r, record_of u n = Some r -> record_of s n = Some r \/ nonce r = now s /\ fine s r) ->
  asked u = asked s -> promise_of u = promise_of s -> accepted_at u = accepted_at s -> proposed u = proposed s ->
  proposed_at u = proposed_at s -> chosen_by u = chosen_by s -> chosen_at u = chosen_at s -> decided u = decided s ->
  quiet s (next u).
Proof.
  intros s u0 i no to re as_ pr ac pro prat ch chat de. constructor; simpl; rewrite ?as_, ?pr, ?ac; auto.
  - destruct to; [now constructor 1 | econstructor 2 | econstructor 3 | econstructor 4 | econstructor 5]; eauto.
  - intros p p' n r r' (_ & fresh & _) is. destruct (promised s i p n r is) as (_ & _ & _ & _ & _ & ? & _). lia.
Qed.

Lemma written : forall s n r r', record_of s n = Some r -> fine s r' -> nonce r' = now s -> rises r r' ->
  touches s (with_record s n (Some r')) /\
  forall m r0, record_of (with_record s n (Some r')) m = Some r0 -> record_of s m = Some r0 \/ nonce r0 = now s /\ fine s r0.
Proof.
  intros s n r r' is ok fresh rise. split; [now apply (One_is_written s _ n r r') |].
  intros m r0 is0. simpl in is0. destruct (Nat.eq_dec m n) as [-> | other].
  - rewrite update_same in is0. inversion is0; subst. auto.
  - rewrite update_other in is0 by assumption. auto.
Qed.

Lemma picked : forall s places l, pick (log s) places = Some l -> forall o, In o l -> In o (log s).
Proof.
  intros s places l ok o o_in. apply all_some_map in ok as [_ only]. destruct (only o o_in) as (k & _ & is).
  now apply nth_error_In in is.
Qed.

Lemma quiet_promises : forall s p n u, invariant s -> act y s (Promises p n) = Some u -> quiet s (next u).
Proof.
  intros s p n u i acts. simpl in acts. rewrite ?rules in acts.
  destruct (asked s p) as [q |] eqn:a; [| discriminate]. destruct (record_of s n) as [r |] eqn:is; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite (unless_obeyed y _ _ rules), andb_true_iff, Nat.eqb_eq, Nat.ltb_lt in ok.
  destruct ok as [at_ less]. destruct (records_fine s i n r is) as [(d & acc & back) past].
  match goal with |- context [with_record s n (Some ?x)] => set (r' := x) end.
  assert (ok : fine s r') by (split; [assumption |]; split; [simpl; unfold accepted_ballot in *; simpl; lia | exact back]).
  destruct (written s n r r' is ok eq_refl) as [touch re]; [right; unfold accepted_ballot; simpl; auto with arith |].
  constructor; simpl; auto.
  + destruct touch as [| | | |]; [now constructor 1 | econstructor 2 | econstructor 3 | econstructor 4 | econstructor 5]; eauto.
  + intros p' m r0 is0. destruct (Nat.eq_dec p' p) as [-> | other]; [| rewrite update_other in is0 by assumption; auto].
    rewrite update_same in is0. destruct (Nat.eq_dec m n) as [-> | other]; [| rewrite update_other in is0 by assumption; auto].
    rewrite update_same in is0. inversion is0; subst r0. right. split; [simpl; now rewrite update_same |].
    split; [reflexivity |]. exists q, r. unfold accepted_ballot in *. simpl. repeat split; auto. lia.
  + intros p1 p2 m r1 r2 (_ & fresh1 & _) is1 (_ & fresh2 & _) is2.
    assert (mine : forall p' r0, nonce r0 = now s ->
      update (promise_of s) p (update (promise_of s p) n (Some r')) p' m = Some r0 -> p' = p).
    { intros p' r0 fresh is0. destruct (Nat.eq_dec p' p) as [| other]; [assumption |].
      rewrite update_other in is0 by assumption. destruct (promised s i p' m r0 is0) as (_ & _ & _ & _ & _ & ? & _). lia. }
    rewrite (mine p1 r1), (mine p2 r2); auto.
Qed.

Lemma quiet_accepts : forall s p n u, invariant s -> act y s (Accepts p n) = Some u -> quiet s (next u).
Proof.
  intros s p n u i acts. simpl in acts. rewrite ?rules in acts.
  destruct (asked s p) as [q |] eqn:a; [| discriminate]. destruct (proposed s p) as [[h c] |] eqn:pr; [| discriminate].
  destruct (promise_of s p n) as [r0 |] eqn:pro; [| discriminate]. destruct (record_of s n) as [r |] eqn:is; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite (unless_obeyed y _ _ rules), !andb_true_iff, !Nat.eqb_eq in ok.
  destruct ok as [[in_held at_] same]. destruct (records_fine s i n r is) as [(d & acc & back) past].
  destruct (promised s i p n r0 pro) as (q1 & a1 & _ & bal & low & _ & one).
  assert (q1 = q) as -> by congruence. assert (r = r0) as <- by auto.
  match goal with |- context [with_record s n (Some ?x)] => set (r' := x) end.
  assert (ok : fine s r').
  { split; [assumption |]. split; [unfold accepted_ballot; simpl; lia |]. intros b c0 is0. simpl in is0. inversion is0; subst.
    exists p, q, h. split; [split; assumption | auto]. }
  destruct (written s n r r' is ok eq_refl) as [touch re]; [right; unfold accepted_ballot in *; simpl; lia |].
  constructor; simpl; auto.
  + destruct touch as [| | | |]; [now constructor 1 | econstructor 2 | econstructor 3 | econstructor 4 | econstructor 5]; eauto.
  + intros p1 p2 m r1 r2 (_ & fresh & _) is1. destruct (promised s i p1 m r1 is1) as (_ & _ & _ & _ & _ & ? & _). lia.
  + intros p' m k is0. destruct (Nat.eq_dec p' p) as [-> | other]; [| rewrite update_other in is0 by assumption; auto].
    rewrite update_same in is0. destruct (Nat.eq_dec m n) as [-> | other]; [| rewrite update_other in is0 by assumption; auto].
    rewrite update_same in is0. inversion is0; subst k. right. split; [reflexivity |]. exists q, h, c. split; [split; assumption |].
    intros r1 is1. simpl in is1. rewrite update_same in is1. inversion is1; subst. simpl. auto.
Qed.

Lemma quiet_installs : forall s n places u, invariant s -> act y s (Installs n places) = Some u -> quiet s (next u).
Proof.
  intros s n places u i acts. simpl in acts. rewrite ?rules in acts.
  destruct (record_of s n) as [r |] eqn:is; [discriminate |]. destruct (pick (log s) places) as [[| o l] |] eqn:ps; try discriminate.
  apply when_some in acts as [ok ->]. rewrite !(unless_obeyed y _ _ rules), !andb_true_iff, !forallb_forall in ok.
  destruct ok as ((((epochs & in_list) & _) & maj) & late). pose proof (picked s places _ ps) as of_log.
  match goal with |- context [with_record s n (Some ?x)] => set (r' := x) end.
  destruct (highest_accepted_is (map shown (o :: l))) as [above_ from].
  assert (o_fine : fine s (shown o)) by (apply (seen_fine s i o), of_log; now left).
  assert (ok : fine s r').
  { split; [apply o_fine |]. split.
    - unfold accepted_ballot. unfold r' at 1. cbn [accepted].
      destruct (highest_accepted (map shown (o :: l))) as [[b c] |] eqn:high; [| lia].
      destruct (from b c eq_refl) as (r0 & r0_in & acc). pose proof (highest_ballot_is _ _ r0_in) as less.
      apply in_map_iff in r0_in as (o0 & <- & o0_in). destruct (seen_fine s i o0 (of_log o0 o0_in)) as [(_ & le_ & _) _].
      unfold accepted_ballot in le_. rewrite acc in le_. unfold r'. cbn [ballot]. lia.
    - intros b c is0. unfold r' in is0. cbn [accepted] in is0. destruct (from b c is0) as (r0 & r0_in & acc).
      apply in_map_iff in r0_in as (o0 & <- & o0_in). destruct (seen_fine s i o0 (of_log o0 o0_in)) as [(_ & _ & back) _].
      destruct (back b c acc) as (p & q & h & p_ & at_ & num). exists p, q, h. split; [assumption |]. split; [| assumption].
      rewrite at_. specialize (epochs o0 o0_in). apply Nat.eqb_eq in epochs. exact epochs. }
  apply (quiet_plain s); auto.
  + apply (One_is_installed s _ n (o :: l) r'); auto.
    * intros o0 o0_in. split; [now apply of_log |]. specialize (late o0 o0_in). now apply Nat.ltb_lt.
    * split; [exists o; now left |]. intros o0 o0_in. specialize (epochs o0 o0_in). apply Nat.eqb_eq in epochs.
      split; [exact epochs |]. split.
      -- destruct (seen_fine s i o0 (of_log o0 o0_in)) as [(d & _) _]. rewrite epochs in d.
         apply (decided_once s i (epoch (shown o))); [exact d | apply o_fine].
      -- split; [apply highest_ballot_is; now apply in_map |]. unfold accepted_ballot at 1.
         destruct (accepted (shown o0)) as [[b c] |] eqn:acc; [| lia].
         destruct (above_ (shown o0) (in_map shown _ _ o0_in) b c acc) as (b' & c' & high & more).
         unfold accepted_ballot, r'. cbn [accepted]. rewrite high. exact more.
    * now apply is_majority_majority.
  + intros m r0 is0. simpl in is0. destruct (Nat.eq_dec m n) as [-> | other].
    * rewrite update_same in is0. inversion is0; subst. auto.
    * rewrite update_other in is0 by assumption. auto.
Qed.

Lemma quiet_step : forall s e s', invariant s -> step y s e = Some s' ->
  (forall p held, e <> Is_promised p held) -> (forall p held, e <> Is_accepted p held) -> quiet s s'.
Proof.
  intros s e s' i happens not_p not_a. unfold step in happens.
  destruct (act y s e) as [u |] eqn:acts; [| discriminate]. inversion happens; subst s'; clear happens.
  destruct e; eauto using quiet_promises, quiet_accepts, quiet_installs; simpl in acts; rewrite ?rules in acts.
  - (* Reads *)
    destruct (record_of s n) as [r |] eqn:is; inversion acts; subst. apply (quiet_plain s); auto. now apply (One_is_read s _ n r).
  - (* Begins *)
    destruct (asked s p) eqn:none; [discriminate |]. destruct (nth_error (log s) place) as [o |] eqn:at_; [| discriminate].
    apply when_some in acts as [positive ->]. apply Nat.ltb_lt in positive. apply nth_error_In in at_.
    constructor; simpl; auto.
    + now constructor 1.
    + intros p' q' is. destruct (Nat.eq_dec p' p) as [-> | other]; [congruence | now rewrite update_other].
    + intros p' q' is. destruct (Nat.eq_dec p' p) as [-> | other].
      * rewrite update_same in is. inversion is; subst. right. simpl. split; [| assumption]. now apply (seen_fine s i o).
      * rewrite update_other in is by assumption. auto.
    + intros p1 p2 n r r' (_ & fresh & _) is. destruct (promised s i p1 n r is) as (_ & _ & _ & _ & _ & ? & _). lia.
  - now elim (not_p p held).
  - now elim (not_a p held).
  - (* Switches *)
    destruct (asked s p) as [q |] eqn:a; [| discriminate]. destruct (proposed s p) as [[h c] |] eqn:pr; [| discriminate].
    destruct (chosen_by s p) as [held |] eqn:ch; [| discriminate]. destruct (record_of s n) as [r |] eqn:is; [| discriminate].
    destruct (changed y c (base q)) as [l |] eqn:change; [| discriminate].
    apply when_some in acts as [ok ->]. apply Nat.eqb_eq in ok.
    edestruct (written s n r) as [touch re]; [exact is | | | | apply (quiet_plain s); [exact i | reflexivity | exact touch | exact re | reflexivity ..]].
    + split; [| split; [unfold accepted_ballot; simpl; lia | discriminate]]. simpl. rewrite ok.
      now apply (chosen_decided s i p q held c h).
    + reflexivity.
    + left. simpl. lia.
  - (* Follows *)
    destruct (record_of s n) as [r |] eqn:is; [| discriminate]. destruct (nth_error (log s) place) as [o |] eqn:at_; [| discriminate].
    apply when_some in acts as [ok ->]. rewrite andb_true_iff, Nat.ltb_lt in ok. destruct ok as [less _]. apply nth_error_In in at_.
    edestruct (written s n r) as [touch re]; [exact is | | | | apply (quiet_plain s); [exact i | reflexivity | exact touch | exact re | reflexivity ..]].
    + split; [| split; [unfold accepted_ballot; simpl; lia | discriminate]]. now apply (seen_fine s i o).
    + reflexivity.
    + left. assumption.
  - (* Writes *)
    destruct (record_of s n) as [r |] eqn:is; [| discriminate]. inversion acts; subst u. destruct (records_fine s i n r is) as [ok _].
    edestruct (written s n r) as [touch re]; [exact is | | | | apply (quiet_plain s); [exact i | reflexivity | exact touch | exact re | reflexivity ..]].
    + exact ok.
    + reflexivity.
    + right. unfold accepted_ballot. simpl. auto.
  - (* Loses *)
    destruct (record_of s n) as [r |] eqn:is; [| discriminate]. inversion acts; subst u. apply (quiet_plain s); auto.
    + now apply (One_is_lost s _ n).
    + intros m r0 is0. simpl in is0. destruct (Nat.eq_dec m n) as [-> | other].
      * rewrite update_same in is0. discriminate.
      * rewrite update_other in is0 by assumption. auto.
Qed.

(* ---- every run ---------------------------------------------------------------------------------- *)

Lemma invariant_initial : invariant (initial y).
Proof.
  constructor; simpl; try discriminate; try contradiction; try (intros; unfold proposes in *; simpl in *; intuition discriminate).
  - intros e l [is | []]. inversion is; subst. assumption.
  - intros e l l' [is | []] [is' | []]. congruence.
  - intros e l [is | []]. inversion is. auto.
  - intros n r is. destruct (among (first y) n); inversion is; subst. split; [| simpl; lia].
    split; [now left |]. split; [unfold accepted_ballot; simpl; lia | discriminate].
Qed.

Lemma reachable_invariant : forall s, reachable y s -> invariant s.
Proof.
  intros s reached. induction reached as [| s e s' reached i happens]; [apply invariant_initial |].
  destruct e; try (apply (quiet_keeps s); [assumption | eapply quiet_step; [eassumption | exact happens | discriminate | discriminate]]).
  - now apply (Is_promised_keeps s p held).
  - now apply (Is_accepted_keeps s p held).
Qed.

End Chosen.

(* Whatever operators are interrupted, whatever requests are late, and whatever data nodes lose: each
   record is of a decided list; each epoch has one list; and it comes from the list of the epoch before
   by adding one member or removing one. *)
Theorem one_chain_of_lists : forall y, obeys y -> NoDup (first y) -> forall s, reachable y s ->
  (forall n r, record_of s n = Some r -> In (epoch r, members r) (decided s)) /\
  (forall e l l', In (e, l) (decided s) -> In (e, l') (decided s) -> l = l') /\
  (forall e l', In (S e, l') (decided s) -> exists l, In (e, l) (decided s) /\ one_change l l').
Proof.
  intros y ob one s reached. pose proof (reachable_invariant y ob one s reached) as i. split; [| split].
  - intros n r is. now apply (records_fine y s i n r).
  - apply (decided_once y s i).
  - intros e l' in_. destruct (decided_from y s i _ _ in_) as [[? _] | (p & q & h & c & [a _] & _ & is & change)]; [discriminate |].
    inversion is; subst. exists (base q). split; [now apply (asked_fine y s i p) | now apply changed_is_one with y c].
Qed.

(* What MembershipLocks.v takes from here: an epoch is decided by one change of the list before, at a moment at
   which a majority of that list is intact at the epoch before. *)
Theorem decided_at_a_majority : forall y, obeys y -> NoDup (first y) -> forall s, reachable y s ->
  forall ev s', step y s ev = Some s' -> decided s' = decided s \/
  exists e l l' held, decided s' = (S e, l') :: decided s /\ In (e, l) (decided s) /\ one_change l l' /\
    is_majority held l = true /\ forall n, In n held -> exists r, record_of s n = Some r /\ epoch r = e.
Proof.
  intros y ob one s reached ev s' happens. pose proof (reachable_invariant y ob one s reached) as i.
  unfold step in happens. destruct (act y s ev) as [u |] eqn:acts; [| discriminate]. inversion happens; subst s'; clear happens.
  destruct ev; cbn [act] in acts;
    try (left; repeat match type of acts with
      | match ?x with _ => _ end = _ => destruct x eqn:?; try discriminate
      | when _ _ = Some _ => apply when_some in acts as [_ ->]
      | Some _ = Some _ => inversion acts; subst u; clear acts
      end; reflexivity).
  destruct (asked s p) as [q |] eqn:a; [| discriminate]. destruct (proposed s p) as [[h c] |] eqn:pr; [| discriminate].
  destruct (chosen_by s p); [discriminate |]. destruct (all_some (map (accepted_at s p) held)); [| discriminate].
  destruct (changed y c (base q)) as [l' |] eqn:change; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite (unless_obeyed y _ _ ob), andb_true_iff, forallb_forall in ok.
  destruct ok as [maj looks]. right. exists (of_epoch q), (base q), l', held.
  split; [reflexivity |]. split; [now apply (asked_fine y s i p) |]. split; [now apply changed_is_one with y c |].
  split; [assumption |]. intros n n_in. specialize (looks n n_in). destruct (accepted_at s p n) as [k |] eqn:acc; [| discriminate].
  apply unchanged_is in looks as (r & is & same).
  destruct (accepts y s i p n k acc) as (q' & h' & c' & [a' _] & _ & of_r). exists r. split; [assumption |].
  destruct (of_r r is same) as [-> _]. congruence.
Qed.

(* ---- two reads with one nonce ------------------------------------------------------------------- *)

Lemma step_writes : forall y s e s' n, step y s e = Some s' ->
  record_of s' n = record_of s n \/ record_of s' n = None \/ exists r, record_of s' n = Some r /\ nonce r = now s.
Proof.
  intros y s e s' n happens. unfold step in happens. destruct (act y s e) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst s'; clear happens. simpl.
  assert (put : forall m r, record_of u = update (record_of s) m r -> r = None \/ (exists r', r = Some r' /\ nonce r' = now s) ->
    record_of u n = record_of s n \/ record_of u n = None \/ exists r0, record_of u n = Some r0 /\ nonce r0 = now s).
  { intros m r is which. rewrite is. destruct (Nat.eq_dec n m) as [-> | other]; [| left; now rewrite update_other].
    rewrite update_same. destruct which as [-> | (r' & -> & ?)]; eauto. }
  destruct e; simpl in acts;
    repeat match type of acts with
    | match ?x with _ => _ end = _ => destruct x eqn:?; try discriminate
    | when _ _ = Some _ => apply when_some in acts as [_ ->]
    | Some _ = Some _ => inversion acts; subst u; clear acts
    end; try (left; reflexivity); (eapply put; [reflexivity | eauto]).
Qed.

Lemma follows_later : forall y s t, follows y s t -> now s <= now t.
Proof.
  intros y s t f. induction f as [| t e t' f IH happens]; [lia |].
  assert (now t' = S (now t)); [| lia]. unfold step in happens. destruct (act y t e) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst t'; clear happens. simpl. f_equal.
  destruct e; simpl in acts;
    repeat match type of acts with
    | match ?x with _ => _ end = _ => destruct x eqn:?; try discriminate
    | when _ _ = Some _ => apply when_some in acts as [_ ->]
    | Some _ = Some _ => inversion acts; subst u; clear acts
    end; reflexivity.
Qed.

(* If a node is read twice and shows one nonce, it had that record all the time between. So the code sees,
   by reading again after the last of its writes, that there was one moment at which all of them were in
   place: this is the moment of Is_promised and of Is_accepted. *)
Theorem same_nonce_same_record : forall y, obeys y -> NoDup (first y) ->
  forall s t u n r r', reachable y s -> follows y s t -> follows y t u ->
  record_of s n = Some r -> record_of u n = Some r' -> nonce r = nonce r' -> record_of t n = Some r.
Proof.
  intros y ob one s t u n r r' reached to_t to_u at_s at_u same.
  destruct (records_fine y s (reachable_invariant y ob one s reached) n r at_s) as [_ past].
  set (new := fun v => forall r0, record_of v n = Some r0 -> now s <= nonce r0).
  assert (stays : forall v w, follows y s v -> follows y v w -> new v -> new w).
  { intros v w later f is. induction f as [| w e w' f IH happens]; [assumption |].
    assert (now s <= now w) by (pose proof (follows_later _ _ _ later); pose proof (follows_later _ _ _ f); lia).
    intros r0 has. destruct (step_writes y w e w' n happens) as [equal | [none | (r1 & is1 & at1)]].
    - apply IH. congruence.
    - congruence.
    - assert (r0 = r1) as -> by congruence. lia. }
  assert (either : record_of t n = Some r \/ new t).
  { clear to_u at_u. induction to_t as [| t e t' f IH happens]; [auto |].
    destruct IH as [old | is].
    - destruct (step_writes y t e t' n happens) as [equal | [none | (r1 & is1 & at1)]].
      + left. congruence.
      + right. intros r0 has. congruence.
      + right. intros r0 has. assert (r0 = r1) as -> by congruence. rewrite at1. now apply follows_later with y.
    - right. apply (stays t t'); auto. eapply later; [apply at_once | eassumption]. }
  destruct either as [? | is]; [assumption |].
  specialize (stays t u to_t to_u is r' at_u). lia.
Qed.
