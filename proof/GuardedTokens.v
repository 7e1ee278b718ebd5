(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: what happens gives lawful histories, and so fencing tokens are unique and grow. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded.
Import ListNotations.
Open Scope Z_scope.

(* What a system is: not an assumption about the world, but what the words mean. *)
Record well_formed (y : system) : Prop := {
  every_body_is_a_members : forall b, (member_of y b < members y)%nat;
  first_bodies : forall b, (b < members y)%nat -> member_of y b = b /\ rank_of y b = 0%nat;
  time_goes_forward : forall m n, (m <= n)%nat -> time_at y m <= time_at y n;
}.

(* All rules are followed. *)
Definition obeys (y : system) : Prop := forall r, drops y r = false.

(* ---- small lemmas about the definitions -------------------------------------------------------- *)

Lemma unless_obeyed : forall y r b, obeys y -> unless y r b = b.
Proof. intros y r b ob. unfold unless. now rewrite (ob r). Qed.

Lemma is_view_view : forall y l, obeys y -> is_view y l = true -> view (members y) (member_of y) (rank_of y) l.
Proof.
  intros y l ob v. unfold is_view in v. rewrite (unless_obeyed y _ _ ob) in v. rewrite !andb_true_iff in v. destruct v as [[one many] superseded].
  constructor.
  - now apply all_differ_NoDup.
  - now apply Nat.leb_le.
  - intros o o' o_in o_in'. rewrite forallb_forall in superseded. specialize (superseded o o_in).
    rewrite forallb_forall in superseded. specialize (superseded o' o_in'). now apply Nat.leb_le.
Qed.

Lemma picked : forall l places p, pick l places = Some p -> forall o, In o p -> In o l.
Proof.
  induction places as [| i places IH]; simpl; intros p ok o o_in.
  - inversion ok; subst. contradiction.
  - destruct (nth_error l i) eqn:at_i; [| discriminate]. destruct (pick l places); [| discriminate].
    inversion ok; subst. destruct o_in as [<- | o_in]; [now apply nth_error_In in at_i | eauto].
Qed.

Lemma highest_known_is : forall own l,
  (forall n, (own n <= highest_known own l n)%nat) /\
  (forall o n, In o l -> (knew o n <= highest_known own l n)%nat).
Proof.
  intros own l. unfold highest_known. induction l as [| p l [IH1 IH2]]; simpl; split.
  - auto.
  - intros o n [].
  - intros n. specialize (IH1 n). lia.
  - intros o n [<- | o_in]; [lia |]. specialize (IH2 o n o_in). lia.
Qed.

Lemma highest_fence_is : forall own l,
  (forall x, own x <= highest_fence own l x) /\
  (forall o x, In o l -> after o x <= highest_fence own l x).
Proof.
  intros own l. unfold highest_fence. induction l as [| p l [IH1 IH2]]; simpl; split.
  - intros x. lia.
  - intros o x [].
  - intros x. specialize (IH1 x). lia.
  - intros o x [<- | o_in]; [lia |]. specialize (IH2 o x o_in). lia.
Qed.

Lemma raised_grows : forall f x t z, f z <= raised f x t z.
Proof.
  intros. unfold raised. destruct (Nat.eq_dec z x) as [-> |]; [rewrite update_same; lia | now rewrite update_other].
Qed.

Lemma raised_to : forall f x t, f x < t -> raised f x t x = t.
Proof. intros. unfold raised. rewrite update_same. lia. Qed.

Lemma is_vote_why : forall c began ttl t o, is_vote c began ttl t o = true -> why o = Votes c began ttl t.
Proof.
  intros c began ttl t o v. unfold is_vote in v. destruct (why o); try discriminate.
  rewrite !andb_true_iff, !Nat.eqb_eq, !Z.eqb_eq in v. destruct v as [[[-> ->] ->] ->]. reflexivity.
Qed.

Lemma is_extension_why : forall c began ttl o, is_extension c began ttl o = true -> why o = Extends c began ttl.
Proof.
  intros c began ttl o v. unfold is_extension in v. destruct (why o); try discriminate.
  rewrite !andb_true_iff, !Nat.eqb_eq, !Z.eqb_eq in v. destruct v as [[-> ->] ->]. reflexivity.
Qed.

Lemma is_confirmation_of : forall c votes o, is_confirmation c votes o = true ->
  (exists v, In v votes /\ of_body v = of_body o) /\ (forall v, In v votes -> (moment v < moment o)%nat).
Proof.
  intros c votes o v. unfold is_confirmation in v. destruct (why o); try discriminate.
  rewrite !andb_true_iff in v. destruct v as [[_ voted] earlier]. split.
  - apply existsb_exists in voted as (u & ? & same). apply Nat.eqb_eq in same. eauto.
  - rewrite forallb_forall in earlier. intros u u_in. now apply Nat.ltb_lt, earlier.
Qed.

(* ---- the invariant ----------------------------------------------------------------------------- *)

Section Invariant.
Variable y : system.
Hypothesis well : well_formed y.
Hypothesis rules : obeys y.

Lemma keeps_rule : forall r b, unless y r b = b.
Proof. intros. now apply unless_obeyed. Qed.

Notation view := (view (members y) (member_of y) (rank_of y)).
Notation lawful := (lawful (members y) (member_of y) (rank_of y)).

(* The observations of a body all come before another one was claimed. *)
Definition retired (s : state) (b b' : body) : Prop :=
  life_of s b = Dead /\ is_first y b' = false /\
  forall o, In o (log s) -> of_body o = b -> (moment o < claimed_at s b')%nat.

Definition has_waited (i : birth) : Prop :=
  exists waits until time_waited, waited y (registered_at i) waits = Some (until, time_waited) /\
    quarantine y <= time_waited /\ forall r, In r (reads i) -> (until <= moment r)%nat.

Record history (s : state) : Prop := {
  is_lawful : lawful (fun o => In o (log s)) (birth_of s);
  is_past : forall o, In o (log s) -> (moment o < moment_now s)%nat;
  was_intact : forall o, In o (log s) -> life_of s (of_body o) = Intact \/ life_of s (of_body o) = Dead;
  is_kept : forall o, In o (log s) -> (forall n, (knew o n <= knows s (of_body o) n)%nat) /\
    (forall x, after o x <= fence s (of_body o) x);
  intact_since : forall b, life_of s b = Intact -> is_first y b = true \/ exists i, birth_of s b = Some i;
  seen_since : forall o, In o (log s) -> is_first y (of_body o) = true \/ exists i, birth_of s (of_body o) = Some i;
  births : forall b i, birth_of s b = Some i ->
    (life_of s b = Intact \/ life_of s b = Dead) /\ (installed_at i < moment_now s)%nat /\
    (claimed_at s b <= registered_at i)%nat /\ has_waited i /\
    forall r, In r (reads i) -> (forall n, (knew r n <= knows s b n)%nat) /\ (forall x, after r x <= fence s b x);
  registrations : forall b r, registered s b = Some r ->
    (claimed_at s b <= complete_at r < moment_now s)%nat /\ view (complete_by r) /\
    forall m, In m (complete_by r) ->
      In m (log s) /\ moment m = complete_at r /\ (rank_of y b <= knew m (member_of y b))%nat;
  unborn : forall b, life_of s b = Unborn -> registered s b = None /\ birth_of s b = None;
  claims_are_past : forall b, (claimed_at s b <= moment_now s)%nat;
  is_claimed : forall b, life_of s b <> Unborn -> In b (claims s);
  first_are_not_claimed : forall b, is_first y b = true -> life_of s b <> Unborn;
  one_process : forall b b', b <> b' -> life_of s b <> Unborn -> life_of s b' <> Unborn ->
    member_of y b = member_of y b' -> rank_of y b = rank_of y b' -> retired s b b' \/ retired s b' b;
}.

Lemma history_initial : history (initial y).
Proof.
  assert (first : forall b, life_of (initial y) b <> Unborn -> (b < members y)%nat).
  { simpl. intros b known. unfold is_first in known. destruct (Nat.ltb_spec b (members y)); congruence. }
  constructor; simpl; try discriminate; try contradiction.
  - constructor; simpl; try discriminate; contradiction.
  - intros b known. left. destruct (is_first y b); congruence.
  - auto.
  - intros b. lia.
  - intros b known. apply in_seq. specialize (first b known). lia.
  - intros b is. rewrite is. discriminate.
  - intros b b' differ known known' same _. exfalso.
    destruct (first_bodies y well b (first b known)) as [own _].
    destruct (first_bodies y well b' (first b' known')) as [own' _]. congruence.
Qed.

(* ---- steps that leave the history as it is ------------------------------------------------------ *)

(* Records and fences only grow. *)
Lemma history_grows : forall s s', history s ->
  (moment_now s <= moment_now s')%nat -> life_of s' = life_of s -> claims s' = claims s ->
  claimed_at s' = claimed_at s -> registered s' = registered s -> birth_of s' = birth_of s -> log s' = log s ->
  (forall b n, (knows s b n <= knows s' b n)%nat) -> (forall b x, fence s b x <= fence s' b x) ->
  history s'.
Proof.
  intros s s' h later life cl at_ reg birth lg know fences.
  constructor; rewrite ?life, ?cl, ?at_, ?reg, ?birth, ?lg; try apply h.
  - intros o o_in. pose proof (is_past s h o o_in). lia.
  - intros o o_in. destruct (is_kept s h o o_in) as [k f]. split.
    + intros n. specialize (k n). specialize (know (of_body o) n). lia.
    + intros x. specialize (f x). specialize (fences (of_body o) x). lia.
  - intros b i born. destruct (births s h b i born) as (l & past & claimed & wait & copied).
    split; [assumption |]. split; [lia |]. split; [assumption |]. split; [assumption |].
    intros r r_in. destruct (copied r r_in) as [k f]. split.
    + intros n. specialize (k n). specialize (know b n). lia.
    + intros x. specialize (f x). specialize (fences b x). lia.
  - intros b r r_b. destruct (registrations s h b r r_b) as (past & v & each).
    split; [lia |]. split; [assumption | exact each].
  - intros b. pose proof (claims_are_past s h b). lia.
  - intros b b' differ known known' same equal. unfold retired. rewrite life, at_, lg. now apply (one_process s h).
Qed.

Lemma history_next : forall s, history s -> history (next s).
Proof. intros s h. apply (history_grows s); auto; simpl; intros; lia. Qed.

(* A step that only changes what a body knows, its fences and its keys. *)
Lemma history_body : forall s b known fences held, history s ->
  (forall n, (knows s b n <= known n)%nat) -> (forall x, fence s b x <= fences x) ->
  history (with_body s b known fences held).
Proof.
  intros s b known fences held h know grow. apply (history_grows s); auto; simpl; intros b' ?;
    (destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same; auto | rewrite update_other by assumption; lia]).
Qed.

(* ---- observations ------------------------------------------------------------------------------ *)

(* What an intact body answers in this step, when it may raise fences. *)
Definition answers (s s' : state) (o : seen) : Prop :=
  life_of s (of_body o) = Intact /\ moment o = moment_now s /\
  (forall n, knew o n = knows s (of_body o) n) /\
  (forall x, before o x = fence s (of_body o) x) /\
  (forall x, fence s (of_body o) x <= after o x <= fence s' (of_body o) x).

Lemma lawful_answers : forall s s' l, history s -> (forall o, In o l -> answers s s' o) ->
  NoDup (map of_body l) -> lawful (fun o => In o (l ++ log s)) (birth_of s).
Proof.
  intros s s' l h each one. induction l as [| o l IH]; [apply h |]. simpl in *.
  inversion one as [| ? ? not_in one']; subst.
  destruct (each o (or_introl eq_refl)) as (alive_o & at_o & knew_o & before_o & after_o).
  apply lawful_add.
  - apply IH; auto.
  - apply well.
  - intros none. destruct (intact_since s h _ alive_o) as [first | [i born]]; [| congruence].
    apply (first_bodies y well). now apply Nat.ltb_lt.
  - intros i born. destruct (births s h _ i born) as (_ & past & _ & _ & copied). split; [lia |].
    intros r r_in. destruct (copied r r_in) as [k f]. split.
    + intros n. rewrite knew_o. apply k.
    + intros x. rewrite before_o. apply f.
  - intros x. rewrite before_o. apply after_o.
  - intros p p_in same. apply in_app_iff in p_in as [p_in | p_in].
    + exfalso. apply not_in. rewrite <- same. now apply in_map.
    + destruct (is_kept s h p p_in) as [k f]. rewrite same in *. rewrite at_o. split; [now apply is_past |]. split.
      * intros n. rewrite knew_o. apply k.
      * intros x. rewrite before_o. apply f.
  - intros p p_in differ same equal. unfold member in same.
    assert (seen_p : life_of s (of_body p) <> Unborn /\
      (is_first y (of_body p) = true \/ exists i, birth_of s (of_body p) = Some i)).
    { apply in_app_iff in p_in as [p_in | p_in].
      - destruct (each p (or_intror p_in)) as (alive_p & _). split; [congruence | now apply intact_since].
      - split; [destruct (was_intact s h p p_in); congruence | now apply seen_since]. }
    destruct seen_p as [known_p since_p].
    destruct (one_process s h (of_body p) (of_body o) differ known_p ltac:(congruence) same equal)
      as [(dead & not_first & earlier) | (dead & _)]; [| congruence].
    left. destruct (intact_since s h _ alive_o) as [first | [i born]]; [congruence |].
    exists i. split; [assumption |]. destruct (births s h _ i born) as (_ & _ & claimed & _).
    apply in_app_iff in p_in as [p_in | p_in].
    + destruct (each p (or_intror p_in)) as (alive_p & _). congruence.
    + specialize (earlier p p_in eq_refl). lia.
Qed.

Lemma history_seen : forall s s' l, history s -> (forall o, In o l -> answers s s' o) ->
  NoDup (map of_body l) -> moment_now s' = S (moment_now s) -> log s' = l ++ log s ->
  life_of s' = life_of s -> claims s' = claims s -> claimed_at s' = claimed_at s -> birth_of s' = birth_of s ->
  (forall b n, (knows s b n <= knows s' b n)%nat) -> (forall b x, fence s b x <= fence s' b x) ->
  (forall b r, registered s' b = Some r -> registered s b = Some r \/
    life_of s b = Recovering /\ complete_at r = moment_now s /\ view (complete_by r) /\
    (claimed_at s b <= moment_now s)%nat /\
    forall m, In m (complete_by r) ->
      In m l /\ moment m = moment_now s /\ (rank_of y b <= knew m (member_of y b))%nat) ->
  history s'.
Proof.
  intros s s' l h each one later lg life cl at_ birth know fences reg.
  assert (no_new : forall b, registered s' b <> None -> registered s b <> None \/ life_of s b = Recovering).
  { intros b some. destruct (registered s' b) as [r |] eqn:is; [| congruence].
    destruct (reg b r is) as [? | (? & _)]; [left; congruence | auto]. }
  constructor; rewrite ?life, ?cl, ?at_, ?birth, ?lg.
  - now apply lawful_answers with s'.
  - intros o o_in. apply in_app_iff in o_in as [o_in | o_in].
    + destruct (each o o_in) as (_ & -> & _). lia.
    + pose proof (is_past s h o o_in). lia.
  - intros o o_in. apply in_app_iff in o_in as [o_in | o_in]; [left; now apply each | now apply was_intact].
  - intros o o_in. apply in_app_iff in o_in as [o_in | o_in].
    + destruct (each o o_in) as (_ & _ & knew_o & _ & after_o). split; [| apply after_o].
      intros n. rewrite knew_o. apply know.
    + destruct (is_kept s h o o_in) as [k f]. split.
      * intros n. specialize (k n). specialize (know (of_body o) n). lia.
      * intros x. specialize (f x). specialize (fences (of_body o) x). lia.
  - apply (intact_since s h).
  - intros o o_in. apply in_app_iff in o_in as [o_in | o_in].
    + apply (intact_since s h). now apply each.
    + now apply (seen_since s h).
  - intros b i born. destruct (births s h b i born) as (l' & past & claimed & wait & copied).
    split; [assumption |]. split; [lia |]. split; [assumption |]. split; [assumption |].
    intros r r_in. destruct (copied r r_in) as [k f]. split.
    + intros n. specialize (k n). specialize (know b n). lia.
    + intros x. specialize (f x). specialize (fences b x). lia.
  - intros b r r_b. destruct (reg b r r_b) as [before_ | (_ & at_now & v & claimed & each_m)].
    + destruct (registrations s h b r before_) as (past & v & each_m). split; [lia |]. split; [assumption |].
      intros m m_in. destruct (each_m m m_in) as (? & ? & ?). rewrite in_app_iff. auto.
    + split; [lia |]. split; [assumption |]. intros m m_in. destruct (each_m m m_in) as (? & ? & ?).
      rewrite in_app_iff. repeat split; auto. congruence.
  - intros b is. destruct (unborn s h b is) as [none ?]. split; [| assumption].
    destruct (registered s' b) eqn:some; [| reflexivity].
    destruct (no_new b ltac:(congruence)); congruence.
  - intros b. pose proof (claims_are_past s h b). lia.
  - apply (is_claimed s h).
  - apply (first_are_not_claimed s h).
  - intros b b' differ known known' same equal. unfold retired. rewrite life, at_, lg.
    destruct (one_process s h b b' differ known known' same equal) as [(dead & no & earlier) | (dead & no & earlier)];
      [left | right]; (split; [assumption |]; split; [assumption |]);
      intros o o_in of_b; apply in_app_iff in o_in as [o_in | o_in]; auto;
      destruct (each o o_in) as (alive_o & _); congruence.
Qed.

(* One answer. *)
Lemma history_answer : forall s b p known fences held, history s -> life_of s b = Intact ->
  known = knows s b -> (forall x, fence s b x <= fences x) ->
  history (next (with_log (with_body s b known fences held) [observe s b fences p])).
Proof.
  intros s b p known fences held h alive_b -> grow.
  apply (history_seen s _ [observe s b fences p]); auto.
  - intros o [<- | []]. unfold answers. simpl. rewrite update_same. repeat split; auto; lia.
  - simpl. constructor; [tauto | constructor].
  - simpl. intros b' n. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same | rewrite update_other by assumption]; lia.
  - simpl. intros b' x. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same; auto | rewrite update_other by assumption; lia].
Qed.

Lemma history_look : forall s b p, history s -> life_of s b = Intact ->
  history (next (with_log s [observe s b (fence s b) p])).
Proof.
  intros s b p h alive_b. apply (history_seen s _ [observe s b (fence s b) p]); simpl; auto; try lia.
  - intros o [<- | []]. unfold answers. simpl. repeat split; auto; lia.
  - constructor; [tauto | constructor].
Qed.

Lemma NoDup_map_finer : forall (A : Type) (f g : A -> nat) (l : list A),
  (forall a b, In a l -> In b l -> g a = g b -> f a = f b) -> NoDup (map f l) -> NoDup (map g l).
Proof.
  induction l as [| a l IH]; simpl; intros finer one; [constructor |].
  inversion one as [| ? ? not_in one']; subst. constructor; [| apply IH; auto].
  intros g_in. apply not_in. apply in_map_iff in g_in as (b & same & b_in).
  apply in_map_iff. exists b. split; [| assumption]. apply finer; auto.
Qed.

Lemma history_registered : forall s b l, history s -> life_of s b = Recovering ->
  (forall o, In o l -> exists b', o = observe s b' (fence s b') Is_read /\ life_of s b' = Intact) ->
  view l -> (forall o, In o l -> (rank_of y b <= knew o (member_of y b))%nat) ->
  (claimed_at s b <= moment_now s)%nat ->
  history (next (with_log (with_registered s b {| complete_at := moment_now s; complete_by := l |}) l)).
Proof.
  intros s b l h recovering each v know claimed.
  apply (history_seen s _ l); simpl; auto; try (intros; lia).
  - intros o o_in. destruct (each o o_in) as (b' & -> & alive_b). unfold answers. simpl. repeat split; auto; lia.
  - eapply NoDup_map_finer; [| apply v]. intros o p _ _ same. unfold member. now rewrite same.
  - intros b' r is. destruct (Nat.eq_dec b' b) as [-> | other].
    + rewrite update_same in is. inversion is; subst. right. simpl. repeat split; auto; try apply v.
      destruct (each m H) as (b' & -> & _). reflexivity.
    + rewrite update_other in is by assumption. auto.
Qed.

(* ---- death, claim and birth --------------------------------------------------------------------- *)

Lemma history_dies : forall s b, history s -> alive s b = true -> history (with_life s b Dead).
Proof.
  intros s b h alive_b.
  assert (known_b : life_of s b <> Unborn) by (unfold alive in alive_b; destruct (life_of s b); congruence).
  assert (still : forall b', life_of s b' = Dead -> update (life_of s) b Dead b' = Dead).
  { intros b' ?. destruct (Nat.eq_dec b' b) as [-> |]; [apply update_same | now rewrite update_other]. }
  assert (known : forall b', update (life_of s) b Dead b' <> Unborn <-> life_of s b' <> Unborn).
  { intros b'. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same | now rewrite update_other].
    split; congruence. }
  assert (ended : forall b', life_of s b' = Intact \/ life_of s b' = Dead ->
    update (life_of s) b Dead b' = Intact \/ update (life_of s) b Dead b' = Dead).
  { intros b' ?. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same; auto | now rewrite update_other]. }
  constructor; simpl; try apply h.
  - intros o o_in. apply ended. now apply (was_intact s h).
  - intros b' is. apply (intact_since s h). destruct (Nat.eq_dec b' b) as [-> |];
      [rewrite update_same in is; discriminate | now rewrite update_other in is].
  - intros b' i born. destruct (births s h b' i born) as (l & rest). split; [now apply ended | exact rest].
  - intros b' is. apply (unborn s h). destruct (Nat.eq_dec b' b) as [-> |];
      [rewrite update_same in is; discriminate | now rewrite update_other in is].
  - intros b' k. apply known in k. now apply (is_claimed s h).
  - intros b' first. apply known. now apply (first_are_not_claimed s h).
  - intros b1 b2 differ k1 k2 same equal. apply known in k1. apply known in k2. unfold retired. simpl.
    destruct (one_process s h b1 b2 differ k1 k2 same equal) as [(d & ? & ?) | (d & ? & ?)]; [left | right]; auto.
Qed.

Lemma history_claims : forall s b known fences held, history s -> life_of s b = Unborn ->
  (forall b', In b' (claims s) -> member_of y b' = member_of y b -> rank_of y b' = rank_of y b -> life_of s b' = Dead) ->
  history (with_claim (with_body s b known fences held) b).
Proof.
  intros s b known fences held h unborn_b dead.
  destruct (unborn s h b unborn_b) as [no_registration no_birth].
  assert (not_first : is_first y b = false).
  { destruct (is_first y b) eqn:first; [| reflexivity]. now apply (first_are_not_claimed s h) in first. }
  assert (unseen : forall o, In o (log s) -> of_body o <> b).
  { intros o o_in same. destruct (was_intact s h o o_in); congruence. }
  constructor; simpl; try apply h.
  - intros o o_in. rewrite update_other by auto. now apply (was_intact s h).
  - intros o o_in. rewrite !update_other by auto. now apply (is_kept s h).
  - intros b' is. apply (intact_since s h). destruct (Nat.eq_dec b' b) as [-> |];
      [rewrite update_same in is; discriminate | now rewrite update_other in is].
  - intros b' i born. assert (b' <> b) by congruence. rewrite !update_other by assumption. now apply (births s h).
  - intros b' r is. assert (b' <> b) by congruence. rewrite update_other by assumption. now apply (registrations s h).
  - intros b' is. destruct (Nat.eq_dec b' b) as [-> |]; [now split |].
    rewrite update_other in is by assumption. now apply (unborn s h).
  - intros b'. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same; lia |].
    rewrite update_other by assumption. apply (claims_are_past s h).
  - intros b' k. destruct (Nat.eq_dec b' b) as [-> |]; [auto |].
    rewrite update_other in k by assumption. right. now apply (is_claimed s h).
  - intros b' first. assert (b' <> b) by congruence. rewrite update_other by assumption. now apply (first_are_not_claimed s h).
  - assert (new : forall b', b' <> b -> life_of s b' <> Unborn -> member_of y b' = member_of y b ->
      rank_of y b' = rank_of y b -> retired (with_claim (with_body s b known fences held) b) b' b).
    { intros b' other k same equal. unfold retired. simpl. rewrite update_other, update_same by assumption.
      split; [apply dead; auto; now apply (is_claimed s h) |]. split; [assumption |].
      intros o o_in _. now apply (is_past s h). }
    intros b1 b2 differ k1 k2 same equal.
    destruct (Nat.eq_dec b1 b) as [-> |]; [| destruct (Nat.eq_dec b2 b) as [-> |]].
    + right. rewrite update_other in k2 by congruence. apply new; congruence.
    + left. rewrite update_other in k1 by congruence. apply new; congruence.
    + rewrite update_other in k1, k2 by assumption. unfold retired. simpl. rewrite !update_other by assumption.
      now apply (one_process s h).
Qed.

Lemma history_born : forall s b r l waits until time_waited, history s -> life_of s b = Recovering ->
  registered s b = Some r -> (forall o, In o l -> In o (log s)) -> view l ->
  waited y (complete_at r) waits = Some (until, time_waited) -> quarantine y <= time_waited ->
  (forall o, In o l -> (complete_at r < moment o)%nat /\ (until <= moment o)%nat) ->
  history (next (with_birth (with_body s b (highest_known (knows s b) l) (highest_fence (fence s b) l) (keys s b)) b
    {| registered_at := complete_at r; registered_by := complete_by r; reads := l; installed_at := moment_now s |})).
Proof.
  intros s b r l waits until time_waited h recovering reg of_log v wait enough each.
  destruct (registrations s h b r reg) as (claimed & view_m & each_m).
  destruct (highest_known_is (knows s b) l) as [own_known known]. destruct (highest_fence_is (fence s b) l) as [own_fence fences].
  assert (unseen : forall o, In o (log s) -> of_body o <> b).
  { intros o o_in same. destruct (was_intact s h o o_in); congruence. }
  assert (no_birth : birth_of s b = None).
  { destruct (birth_of s b) as [i |] eqn:born; [| reflexivity].
    destruct (births s h b i born) as ([? | ?] & _); congruence. }
  constructor; simpl.
  - eapply lawful_born with (b := b); [apply h | apply update_same | intros; now apply update_other | assumption | | | |]; simpl; auto.
    intros o o_in. split; [auto |]. destruct (each o o_in). split; [assumption |]. apply (is_past s h). auto.
  - intros o o_in. pose proof (is_past s h o o_in). lia.
  - intros o o_in. rewrite update_other by auto. now apply (was_intact s h).
  - intros o o_in. rewrite !update_other by auto. now apply (is_kept s h).
  - intros b' is. destruct (Nat.eq_dec b' b) as [-> |].
    + rewrite update_same. eauto.
    + rewrite update_other in * by assumption. now apply (intact_since s h).
  - intros o o_in. rewrite update_other by auto. now apply (seen_since s h).
  - intros b' i born. destruct (Nat.eq_dec b' b) as [-> |].
    + rewrite update_same in *. inversion born; subst; simpl.
      split; [auto |]. split; [lia |]. split; [lia |]. split.
      * exists waits, until, time_waited. simpl. split; [assumption |]. split; [assumption |]. intros o o_in. now apply each.
      * intros o o_in. rewrite !update_same. split; [intros n; now apply known | intros x; now apply fences].
    + rewrite !update_other in * by assumption. destruct (births s h b' i born) as (? & ? & rest). split; [assumption |].
      split; [lia | exact rest].
  - intros b' r' is. destruct (registrations s h b' r' is) as (past & v' & each').
    split; [lia |]. split; [assumption | exact each'].
  - intros b' is. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same in is; discriminate |].
    rewrite update_other in * by assumption. now apply (unborn s h).
  - intros b'. pose proof (claims_are_past s h b'). lia.
  - intros b' k. apply (is_claimed s h). destruct (Nat.eq_dec b' b) as [-> |]; [congruence | now rewrite update_other in k].
  - intros b' first. destruct (Nat.eq_dec b' b) as [-> |]; [rewrite update_same; discriminate |].
    rewrite update_other by assumption. now apply (first_are_not_claimed s h).
  - intros b1 b2 differ k1 k2 same equal.
    assert (known_life : forall b', update (life_of s) b Intact b' <> Unborn -> life_of s b' <> Unborn).
    { intros b' k. destruct (Nat.eq_dec b' b) as [-> |]; [congruence | now rewrite update_other in k]. }
    assert (stays : forall b' b'', retired s b' b'' -> b' <> b).
    { intros b' b'' (is_dead & _) ->. congruence. }
    unfold retired. simpl.
    destruct (one_process s h b1 b2 differ (known_life b1 k1) (known_life b2 k2) same equal) as [gone | gone];
      [left | right]; pose proof (stays _ _ gone); rewrite update_other by assumption; exact gone.
Qed.
(* ---- every step --------------------------------------------------------------------------------- *)

Lemma alive_is : forall s b, intact s b = true -> life_of s b = Intact.
Proof. intros s b i. unfold intact in i. destruct (life_of s b); congruence. Qed.

(* A step that changes only phases, keys or sets, or lets a body know more. *)
Lemma history_same : forall s t, history s -> life_of t = life_of s -> claims t = claims s -> claimed_at t = claimed_at s ->
  registered t = registered s -> birth_of t = birth_of s -> log t = log s -> moment_now t = moment_now s ->
  (forall b n, (knows s b n <= knows t b n)%nat) -> (forall b x, fence s b x <= fence t b x) -> history (next t).
Proof. intros s t ? ? ? ? ? ? ? ? ? ?. apply history_next. apply (history_grows s); auto; lia. Qed.

Lemma history_own_body : forall s b known fences held, history s -> (forall n, (knows s b n <= known n)%nat) ->
  (forall x, fence s b x <= fences x) -> history (next (with_body s b known fences held)).
Proof. intros. apply history_next. now apply history_body. Qed.

Lemma history_is_registered : forall s b at_ u, history s -> act y s (Is_registered b at_) = Some u -> history (next u).
Proof.
  intros s b at_ u h acts. simpl in acts. destruct (life_of s b) eqn:is; try discriminate.
  apply when_some in acts as [ok ->]. rewrite keeps_rule, !andb_true_iff, !forallb_forall in ok.
  destruct ok as ((alive_ & v) & know). apply history_registered; auto.
  - intros o o_in. apply in_map_iff in o_in as (b' & <- & b'_in). exists b'. split; [reflexivity |].
    now apply alive_is, alive_.
  - now apply is_view_view.
  - intros o o_in. now apply Nat.leb_le, know.
  - apply (claims_are_past s h).
Qed.

Lemma history_installs : forall s b places waits u, history s -> act y s (Installs b places waits) = Some u -> history (next u).
Proof.
  intros s b places waits u h acts. simpl in acts. rewrite !rules in acts.
  destruct (life_of s b) eqn:is; try discriminate. destruct (registered s b) as [r |] eqn:reg; [| discriminate].
  destruct (pick (log s) places) as [l |] eqn:pick_; [| discriminate].
  destruct (waited y (complete_at r) waits) as [[until time_waited] |] eqn:wait; [| discriminate].
  apply when_some in acts as [ok ->]. rewrite !keeps_rule, !andb_true_iff, forallb_forall in ok. destruct ok as ((v & enough) & each).
  apply history_born with waits until time_waited; auto.
  - intros o. eapply picked. eassumption.
  - now apply is_view_view.
  - now apply Z.leb_le.
  - intros o o_in. specialize (each o o_in). apply andb_true_iff in each as [a b'].
    split; [now apply Nat.ltb_lt | now apply Nat.leb_le].
Qed.

Lemma history_step : forall s e s', history s -> step y s e = Some s' -> history s'.
Proof.
  intros s e s' h happens. unfold step in happens.
  destruct (act y s e) as [t |] eqn:acts; [| discriminate]. injection happens as <-.
  destruct e; eauto using history_is_registered, history_installs; simpl in acts; rewrite ?rules in acts; take_apart acts;
    try (apply (history_same s); auto; simpl; intros; lia); (* phases, or sets *)
    try (apply history_own_body; auto; intros; lia);        (* keys *)
    try match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff in ok end.
  - (* Sets *)
    match goal with |- history (next (with_set (with_body s b ?k ?f ?held) _)) =>
      pose proof (history_own_body s b k f held h ltac:(intros; lia) ltac:(intros; lia)) as h' end.
    eapply (history_grows _ _ h'); auto; simpl; intros; lia.
  - (* Raises *) apply history_answer; intuition auto using alive_is, raised_grows.
  - (* Bumps *) apply history_own_body; auto. intros. apply raised_grows.
  - (* Extends_ *) apply history_answer; intuition auto using alive_is, raised_grows.
  - (* Confirms_ *) apply history_look; auto using alive_is.
  - (* Reads *) apply history_look; auto using alive_is.
  - (* Learns *)
    apply history_own_body; auto; intros; [| lia].
    destruct (Nat.eq_dec n0 n) as [-> |]; [rewrite update_same; lia | now rewrite update_other].
  - (* Dies *) apply history_next. now apply history_dies.
  - (* Claims *)
    apply history_next. apply history_claims; auto. intros b' b'_in member_ rank_.
    match goal with ok : forallb _ _ = true |- _ => rewrite forallb_forall in ok; specialize (ok b' b'_in);
      rewrite member_, rank_, !Nat.eqb_refl in ok; simpl in ok end. destruct (life_of s b'); congruence.
Qed.

Lemma history_reachable : forall s, reachable y s -> history s.
Proof. induction 1; [apply history_initial | eauto using history_step]. Qed.

(* ---- what is said, and what was won -------------------------------------------------------------- *)

Notation view_of_log := (view_of_log (members y) (member_of y) (rank_of y)).

Definition said (o : seen) : Prop :=
  match why o with
  | Votes c began _ t => strict_vote (stripe_for y c) t o /\ (began <= moment o)%nat
  | Extends _ began _ => (began <= moment o)%nat
  | _ => True
  end.

(* What a grant rests on. *)
Record won (s : state) (g : grant) : Prop := {
  votes_are_a_view : view_of_log (fun o => In o (log s)) (won_by g);
  votes_are_for_it : forall o, In o (won_by g) ->
    why o = Votes (winner g) (began_at g) (won_ttl g) (fencing_token g) /\ (moment o < won_at g)%nat;
  is_won_before : (won_at g < moment_now s)%nat;
  within_ttl_max : won_ttl g <= ttl_max y;
  in_validity : client_clock y (winner g) (time_at y (won_at g)) < validity_end y (winner g) (began_at g) (won_ttl g);
  confirmed_after : match confirmed_by g with
    | None => True
    | Some answers => view_of_log (fun o => In o (log s)) answers /\
        forall o, In o answers -> (exists v, In v (won_by g) /\ of_body v = of_body o) /\
          forall v, In v (won_by g) -> (moment v < moment o)%nat
    end;
}.

Record sayings (s : state) : Prop := {
  all_said : forall o, In o (log s) -> said o;
  all_won : forall g, In g (grants s) -> won s g;
}.

Lemma won_stays : forall s s' g, won s g -> (moment_now s <= moment_now s')%nat ->
  (forall o, In o (log s) -> In o (log s')) -> won s' g.
Proof.
  intros s s' g w later more. destruct w as [[v of_log] for_it past short valid confirmed].
  constructor; auto; try lia.
  - split; auto.
  - destruct (confirmed_by g); auto. destruct confirmed as [[v' of_log'] each]. split; [split |]; auto.
Qed.

Lemma sayings_grow : forall s s' l, sayings s -> (moment_now s <= moment_now s')%nat -> log s' = l ++ log s ->
  grants s' = grants s -> (forall o, In o l -> said o) -> sayings s'.
Proof.
  intros s s' l sa later lg gr each. constructor; rewrite ?lg, ?gr.
  - intros o o_in. apply in_app_iff in o_in as [o_in | o_in]; [auto | now apply (all_said s sa)].
  - intros g g_in. apply won_stays with s; [now apply (all_won s sa) | assumption |].
    intros o o_in. rewrite lg, in_app_iff. auto.
Qed.

Lemma sayings_win : forall s c until g, sayings s -> (forall s', moment_now s' = S (moment_now s) -> log s' = log s -> won s' g) ->
  sayings (next (with_grant (with_phase s c until) g)).
Proof.
  intros s c until g sa new. constructor; simpl.
  - apply (all_said s sa).
  - intros g' [<- | g_in]; [now apply new |].
    apply won_stays with s; [now apply (all_won s sa) | simpl; lia | auto].
Qed.

Lemma sayings_silent : forall s u, sayings s -> log u = log s -> grants u = grants s -> moment_now u = moment_now s ->
  sayings (next u).
Proof. intros s u sa lg gr mo. apply (sayings_grow s _ []); simpl; auto; [lia | contradiction]. Qed.

Lemma sayings_speak : forall s u o, sayings s -> log u = o :: log s -> grants u = grants s -> moment_now u = moment_now s ->
  said o -> sayings (next u).
Proof. intros s u o sa lg gr mo ok. apply (sayings_grow s _ [o]); simpl; auto; [lia |]. intros ? [<- | []]. assumption. Qed.

Lemma winner_won : forall s s' c began ttl t places votes until confirmed, history s -> pick (log s) places = Some votes ->
  is_view y votes && forallb (is_vote c began ttl t) votes && (ttl <=? ttl_max y) &&
    (client_clock y c (now y s) <? validity_end y c began ttl) && (until <=? validity_end y c began ttl) = true ->
  match confirmed with
  | None => True
  | Some answers => is_view y answers = true /\ forallb (is_confirmation c votes) answers = true /\
                    forall o, In o answers -> In o (log s)
  end ->
  moment_now s' = S (moment_now s) -> log s' = log s ->
  won s' {| winner := c; fencing_token := t; began_at := began; won_at := moment_now s; won_ttl := ttl;
            won_by := votes; confirmed_by := confirmed |}.
Proof.
  intros s s' c began ttl t places votes until confirmed h chosen ok confirms mo lg. rewrite !andb_true_iff, forallb_forall in ok.
  destruct ok as ((((v & for_it) & short) & valid) & _). constructor; simpl; rewrite ?lg, ?mo.
  - split; [now apply is_view_view | intros o; eapply picked; eassumption].
  - intros o o_in. split; [now apply is_vote_why, for_it |]. apply (is_past s h). eapply picked; eassumption.
  - lia.
  - now apply Z.leb_le.
  - now apply Z.ltb_lt.
  - destruct confirmed as [answers |]; [| exact I]. destruct confirms as (v' & each & of_log).
    rewrite forallb_forall in each. split; [split; [now apply is_view_view | assumption] |].
    intros o o_in. now apply is_confirmation_of with c, each.
Qed.

Lemma sayings_wins : forall s c t places confirm until u, history s -> sayings s ->
  act y s (Wins c t places confirm until) = Some u -> sayings (next u).
Proof.
  intros s c t places confirm until u h sa acts. simpl in acts.
  destruct (phase_of s c) as [| began ttl | |]; try discriminate.
  destruct (pick (log s) places) as [votes |] eqn:chosen; [| discriminate].
  destruct confirm as [again |].
  - destruct (pick (log s) again) as [answered |] eqn:chosen'; [| discriminate].
    apply when_some in acts as [ok ->]. apply andb_true_iff in ok as [ok confirms]. apply andb_true_iff in ok as [ok v'].
    apply sayings_win; [assumption |]. intros s' mo lg. eapply winner_won; eauto.
    repeat split; auto. intros o. eapply picked. eassumption.
  - apply when_some in acts as [ok ->]. apply sayings_win; [assumption |]. intros s' mo lg. eapply winner_won; eauto.
Qed.

Lemma sayings_step : forall s e s', history s -> sayings s -> step y s e = Some s' -> sayings s'.
Proof.
  intros s e s' h sa happens. unfold step in happens.
  destruct (act y s e) as [u |] eqn:acts; [| discriminate]. injection happens as <-.
  destruct e; eauto using sayings_wins; simpl in acts; rewrite ?keeps_rule, ?rules in acts; take_apart acts;
    try (now apply (sayings_silent s)).
  - (* Raises *)
    eapply (sayings_speak s); [assumption | reflexivity.. |]. unfold said, strict_vote. simpl.
    match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff, Z.ltb_lt, Nat.leb_le in ok end.
    repeat split; try apply raised_to; tauto.
  - (* Extends_ *)
    eapply (sayings_speak s); [assumption | reflexivity.. |].
    match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff, Nat.leb_le in ok end. simpl. tauto.
  - (* Confirms_ *) eapply (sayings_speak s); [assumption | reflexivity.. | exact I].
  - (* Reads *) eapply (sayings_speak s); [assumption | reflexivity.. | exact I].
  - (* Is_registered *)
    eapply (sayings_grow s); [assumption | simpl; lia | reflexivity | reflexivity |].
    intros o o_in. apply in_map_iff in o_in as (b' & <- & _). exact I.
Qed.

Lemma sayings_reachable : forall s, reachable y s -> sayings s.
Proof.
  induction 1; [constructor; simpl; contradiction |]. eapply sayings_step; eauto using history_reachable.
Qed.

(* ---- the wait ------------------------------------------------------------------------------------ *)

Definition agent_clocks_run : Prop := forall a t t', t <= t' ->
  million * (agent_clock y a t' - agent_clock y a t) <= (million + agent_ppm y) * (t' - t) + million * agent_error y.

Definition client_clocks_run : Prop := forall c t t', t <= t' ->
  (million - client_ppm y) * (t' - t) - million * client_error y
  <= million * (client_clock y c t' - client_clock y c t).

(* The wait covers the rate errors of the agent's clock and of the client's. *)
Definition wait_covers : Prop :=
  drift_ppm y <= million /\ client_ppm y <= million /\ 0 <= drift_ppm y /\ 0 <= million + agent_ppm y /\
  (million + agent_ppm y) * (million - drift_ppm y) <= (million - client_ppm y) * (million + drift_ppm y) /\
  0 <= drift_fixed y /\ client_error y <= drift_fixed y.

Lemma waited_is_real : forall waits since until time_waited, agent_clocks_run -> 0 <= million + agent_ppm y ->
  waited y since waits = Some (until, time_waited) ->
  (since <= until)%nat /\
  million * time_waited <= (million + agent_ppm y) * (time_at y until - time_at y since).
Proof.
  intros waits since until time_waited run positive. revert since until time_waited.
  induction waits as [| w waits IH]; cbn [waited]; intros since until time_waited is.
  - inversion is; subst. split; lia.
  - destruct ((since <=? wait_from w)%nat && (wait_from w <=? wait_to w)%nat) eqn:ordered; [| discriminate].
    apply andb_true_iff in ordered as [o1 o2]. apply Nat.leb_le in o1, o2.
    destruct (waited y (wait_to w) waits) as [[u rest] |] eqn:later; [| discriminate].
    inversion is; subst; clear is. destruct (IH _ _ _ later) as [o3 real].
    split; [lia |].
    pose proof (time_goes_forward y well _ _ o1). pose proof (time_goes_forward y well _ _ o2).
    pose proof (run (waiter w) _ _ (time_goes_forward y well _ _ o2)).
    assert (0 <= (million + agent_ppm y) * (time_at y (wait_from w) - time_at y since))
      by (apply Z.mul_nonneg_nonneg; lia).
    unfold million in *. lia.
Qed.

(* After the wait, the validity of every round from before the registration has ended. *)
Lemma outlived : forall c began ttl i at_, agent_clocks_run -> client_clocks_run -> wait_covers ->
  has_waited i -> (began <= registered_at i)%nat -> ttl <= ttl_max y ->
  (exists r, In r (reads i) /\ (moment r <= at_)%nat) ->
  validity_end y c began ttl <= client_clock y c (time_at y at_).
Proof.
  intros c began ttl i at_ agents clients (p & b & p0 & a0 & rates & f0 & errors)
    (waits & until & time_waited & is & enough & each) first short (r & r_in & before_).
  specialize (each r r_in).
  destruct (waited_is_real _ _ _ _ agents a0 is) as [o real].
  pose proof (time_goes_forward y well began (registered_at i) first).
  pose proof (time_goes_forward y well (registered_at i) until o).
  pose proof (time_goes_forward y well until at_ ltac:(lia)).
  pose proof (clients c (time_at y began) (time_at y at_) ltac:(lia)) as shown.
  destruct (Z_lt_ge_dec (client_clock y c (time_at y at_)) (validity_end y c began ttl)) as [inside_ |]; [exfalso | lia].
  unfold validity_end in inside_. unfold quarantine in enough.
  pose proof (drift_rounds_up (drift_ppm y) (drift_fixed y) ttl) as [round _].
  pose proof (drift_rounds_up (drift_ppm y) (drift_fixed y) (ttl_max y)) as [round_max _].
  set (real_wait := time_at y until - time_at y (registered_at i)) in *.
  set (T := ttl_max y) in *.
  assert (client_wait : (million - client_ppm y) * real_wait <= (million - client_ppm y) * (time_at y at_ - time_at y began))
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

(* ---- proposals are complete ----------------------------------------------------------------------- *)

Notation complete := (complete (members y) (member_of y) (rank_of y)).

Definition latest (l : list seen) : nat := fold_right (fun o k => Nat.max (moment o) k) 0%nat l.

Lemma latest_is : forall l, (forall o, In o l -> (moment o <= latest l)%nat) /\
  (forall n, (0 < n)%nat -> (forall o, In o l -> (moment o < n)%nat) -> (latest l < n)%nat).
Proof.
  induction l as [| p l [IH1 IH2]]; simpl; split; auto; try contradiction.
  - intros o [<- | o_in]; [lia |]. specialize (IH1 o o_in). lia.
  - intros n positive below. pose proof (below p (or_introl eq_refl)). specialize (IH2 n positive ltac:(auto)). lia.
Qed.

Lemma view_has_one : forall l, view l -> exists o, In o l.
Proof.
  intros l v. pose proof (is_majority _ _ _ _ v) as many. unfold majority_of in many.
  destruct l as [| o l]; [simpl in many; lia | exists o; simpl; auto].
Qed.

(* What the order of tokens rests on: a confirm round, or else clocks. *)
Definition is_sure (g : grant) : Prop :=
  confirmed_by g <> None \/ (agent_clocks_run /\ client_clocks_run /\ wait_covers).

(* The bodies that prove a grant: those that confirmed, or those that voted. *)
Definition proof_of (g : grant) : list seen :=
  match confirmed_by g with Some answers => answers | None => won_by g end.

Lemma voted : forall s g, won s g -> sayings s -> forall u, In u (proof_of g) ->
  exists a, In a (won_by g) /\ In a (log s) /\ of_body a = of_body u /\
    strict_vote (stripe_for y (winner g)) (fencing_token g) a.
Proof.
  intros s g w sa u u_in.
  assert (strict : forall a, In a (won_by g) -> In a (log s) /\ strict_vote (stripe_for y (winner g)) (fencing_token g) a).
  { intros a a_in. destruct (votes_are_for_it s g w a a_in) as [is _].
    pose proof (proj2 (votes_are_a_view s g w) a a_in) as a_log. split; [assumption |].
    pose proof (all_said s sa a a_log) as says. unfold said in says. rewrite is in says. apply says. }
  unfold proof_of in u_in. pose proof (confirmed_after s g w) as confirmed. destruct (confirmed_by g) as [answers |].
  - destruct (proj2 confirmed u u_in) as [(a & a_in & same) _]. exists a.
    destruct (strict a a_in). repeat split; auto; apply H0.
  - exists u. destruct (strict u u_in). repeat split; auto; apply H0.
Qed.

Lemma vote_of : forall s g a, won s g -> sayings s -> In a (won_by g) ->
  In a (log s) /\ strict_vote (stripe_for y (winner g)) (fencing_token g) a /\ (began_at g <= moment a)%nat.
Proof.
  intros s g a w sa a_in. destruct (votes_are_for_it s g w a a_in) as [is _].
  pose proof (proj2 (votes_are_a_view s g w) a a_in) as a_log. split; [assumption |].
  pose proof (all_said s sa a a_log) as says. unfold said in says. now rewrite is in says.
Qed.

(* If clocks run, the votes are complete with the win: a body that replaces a voter later reads later. *)
Lemma complete_by_clocks : forall s g, history s -> sayings s -> In g (grants s) ->
  agent_clocks_run -> client_clocks_run -> wait_covers ->
  complete (fun o => In o (log s)) (birth_of s) (stripe_for y (winner g)) (fencing_token g) (won_at g) (won_by g).
Proof.
  intros s g h sa g_in agents clients covers.
  pose proof (all_won s sa g g_in) as w. pose proof (is_lawful s h) as law. constructor.
  - apply (votes_are_a_view s g w).
  - intros u u_in. destruct (vote_of s g u w sa u_in) as (u_log & [_ raised_] & _). exists u.
    destruct (votes_are_for_it s g w u u_in). repeat split; auto. lia.
  - intros u b i u_in born newer r r_in.
    destruct (view_is_older _ _ _ _ _ law b i (won_by g) u born (votes_are_a_view s g w) u_in newer) as (p & p_in & older).
    destruct (le_lt_dec (moment r) (won_at g)) as [early |]; [| assumption]. exfalso.
    destruct (vote_of s g p w sa p_in) as (_ & _ & begun).
    destruct (births s h b i born) as (_ & _ & _ & wait & _).
    pose proof (outlived (winner g) (began_at g) (won_ttl g) i (won_at g) agents clients covers wait
      ltac:(lia) (within_ttl_max s g w) ltac:(eauto)).
    pose proof (in_validity s g w). lia.
Qed.

(* When the proposal was complete: with the last vote, or with the win. *)
Lemma grant_is_complete : forall s g, history s -> sayings s -> In g (grants s) -> is_sure g ->
  exists k, complete (fun o => In o (log s)) (birth_of s) (stripe_for y (winner g)) (fencing_token g) k (proof_of g) /\
    (k <= won_at g)%nat.
Proof.
  intros s g h sa g_in sure. pose proof (all_won s sa g g_in) as w. pose proof (is_lawful s h) as law.
  destruct (view_has_one _ (proj1 (votes_are_a_view s g w))) as (v0 & v0_in).
  destruct (votes_are_for_it s g w v0 v0_in) as [_ v0_before].
  destruct (latest_is (won_by g)) as [below above].
  pose proof (voted s g w sa) as votes. unfold proof_of in *.
  pose proof (confirmed_after s g w) as confirmed.
  destruct (confirmed_by g) as [answers |] eqn:is_confirmed.
  - exists (latest (won_by g)). split.
    + constructor.
      * apply confirmed.
      * intros u u_in. destruct (votes u u_in) as (a & a_in & a_log & same & _ & raised_). exists a. auto.
      * intros u b i u_in born newer r r_in.
        destruct (view_is_older _ _ _ _ _ law b i answers u born (proj1 confirmed) u_in newer) as (p & p_in & older).
        destruct (proj2 confirmed p p_in) as [_ later].
        pose proof (later v0 v0_in). specialize (above (moment p) ltac:(lia) later).
        destruct (reading _ _ _ _ _ law b i born) as [_ each]. destruct (each r r_in). lia.
    + assert (latest (won_by g) < won_at g)%nat; [| lia]. apply above; [lia |].
      intros o o_in. now apply (votes_are_for_it s g w).
  - exists (won_at g). split; [| lia]. destruct sure as [? | (agents & clients & covers)]; [congruence |].
    now apply complete_by_clocks.
Qed.

End Invariant.

(* ---- the theorems ------------------------------------------------------------------------------- *)

(* A lock that is acquired by an attempt that began after another lock was acquired has a higher token,
   if the former was confirmed, or else if the clocks of clients and agents run. *)
Theorem tokens_grow : forall y, well_formed y -> obeys y ->
  forall s, reachable y s ->
  forall g g', In g (grants s) -> In g' (grants s) ->
  is_sure y g -> stripe_for y (winner g) = stripe_for y (winner g') ->
  (won_at g < began_at g')%nat -> fencing_token g < fencing_token g'.
Proof.
  intros y well rules s reached g g' g_in g'_in sure same later.
  pose proof (history_reachable y well rules s reached) as h. pose proof (sayings_reachable y well rules s reached) as sa.
  destruct (grant_is_complete y well s g h sa g_in sure) as (k & done & by_win).
  pose proof (all_won y s sa g' g'_in) as w'.
  eapply (later_is_higher _ _ _ _ _ (is_lawful y s h)); [exact done | apply (votes_are_a_view y s g' w') |].
  intros a a_in. destruct (votes_are_for_it y s g' w' a a_in) as [is _].
  pose proof (all_said y s sa a (proj2 (votes_are_a_view y s g' w') a a_in)) as says.
  unfold said in says. rewrite is in says. rewrite same. destruct says. split; [assumption | lia].
Qed.

(* No token is given twice. *)
Theorem tokens_are_unique : forall y, well_formed y -> obeys y ->
  forall s, reachable y s ->
  forall g g', In g (grants s) -> In g' (grants s) ->
  is_sure y g -> is_sure y g' -> stripe_for y (winner g) = stripe_for y (winner g') ->
  fencing_token g = fencing_token g' -> winner g = winner g'.
Proof.
  intros y well rules s reached g g' g_in g'_in sure sure' same equal.
  destruct (Nat.eq_dec (winner g) (winner g')) as [| differ]; [assumption | exfalso].
  pose proof (history_reachable y well rules s reached) as h. pose proof (sayings_reachable y well rules s reached) as sa.
  destruct (grant_is_complete y well s g h sa g_in sure) as (k & done & _).
  destruct (grant_is_complete y well s g' h sa g'_in sure') as (k' & done' & _).
  pose proof (all_won y s sa g g_in) as w. pose proof (all_won y s sa g' g'_in) as w'.
  rewrite <- same in done'.
  apply (complete_differ _ _ _ _ _ (is_lawful y s h) _ _ _ _ _ _ _
    (fun a => In a (won_by g)) (fun a => In a (won_by g')) done done').
  - intros u u_in. destruct (voted y s g w sa u u_in) as (a & ? & ? & ? & ?). exists a. auto.
  - intros u u_in. destruct (voted y s g' w' sa u u_in) as (a & ? & ? & ? & ?). rewrite same. exists a. auto.
  - intros a a_in a_in'. destruct (votes_are_for_it y s g w a a_in) as [is _].
    destruct (votes_are_for_it y s g' w' a a_in') as [is' _]. congruence.
  - assumption.
Qed.
