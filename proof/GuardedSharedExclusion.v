(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode with readers: a writer that is inside validity is alone, whatever data servers lose, if
   clocks run. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedExclusion GuardedShared.
From Redlock Require Shared SharedExclusion.
Import ListNotations.
Open Scope Z_scope.

Notation present := SharedExclusion.present.
Notation exclusive := SharedExclusion.exclusive.

Lemma rules_are_followed : forall r, Shared.obeys server_rules r = true.
Proof. now intros []. Qed.

Section Exclusion.
Variable y : shared_system.
Hypothesis well : well_formed (core y).
Hypothesis rules : obeys (core y).

Notation clock b n := (server_clock (core y) b (time_at (core y) n)).
Notation moment_of s := (moment_now (of_core s)).
Notation home c := (resource_of (core y) c).

(* Since the moment `set` this body had something for the attempt, with `ttl` to live from then on. It has
   it still (or had it when it died), or that has ended by its clock. *)
Definition kept (has : Shared.shelf -> attempt -> time -> Prop) (s : shared_state) (b : body) (c : attempt)
  (began : nat) (ttl : Z) : Prop :=
  exists set, (began <= set <= moment_of s)%nat /\
    (has (shelf_of s b (home c)) c (clock b set + ttl) \/
     (exists ended, (set <= ended <= moment_of s)%nat /\ clock b set + ttl <= clock b ended)).

(* A place or a token; of a client that only wrote, the token. *)
Definition safe (s : shared_state) (b : body) (c : attempt) (began : nat) (ttl : Z) : Prop :=
  kept present s b c began ttl /\ (writes y s c = true -> kept exclusive s b c began ttl).

Definition meant (s : shared_state) (o : seen) : Prop :=
  forall c began ttl, asserts o c began ttl ->
    phase_of (of_core s) c = Over \/ safe s (of_body o) c began ttl \/
    exists i, birth_of (of_core s) (of_body o) = Some i /\ (began <= registered_at i)%nat.

Record meaning (s : shared_state) : Prop := {
  marker_is_nobody : phase_of (of_core s) marker = Idle;
  sets_are_known : forall b c began ttl, In (b, c, began, ttl) (sets (of_core s)) -> life_of (of_core s) b <> Unborn;
  sets_are_safe : forall b c began ttl, In (b, c, began, ttl) (sets (of_core s)) ->
    phase_of (of_core s) c = Over \/ safe s b c began ttl;
  all_meant : forall o, In o (log (of_core s)) -> meant s o;
  holders_are_proven : forall c until, phase_of (of_core s) c = Holding until -> proven (core y) (of_core s) c until;
}.

(* A body changes a shelf for a reason. *)
Definition changes_well (s s' : shared_state) : Prop :=
  forall b x c least, life_of (of_core s) b <> Unborn ->
    (present (shelf_of s b x) c least ->
     present (shelf_of s' b x) c least \/ least <= clock b (moment_of s) \/ phase_of (of_core s') c = Over) /\
    (writes y s' c = true -> exclusive (shelf_of s b x) c least ->
     exclusive (shelf_of s' b x) c least \/ least <= clock b (moment_of s) \/ phase_of (of_core s') c = Over).

Lemma safe_stays : forall s s' b c began ttl, (moment_of s <= moment_of s')%nat ->
  (writes y s' c = true -> writes y s c = true) ->
  changes_well s s' -> life_of (of_core s) b <> Unborn -> safe s b c began ttl ->
  phase_of (of_core s') c = Over \/ safe s' b c began ttl.
Proof.
  intros s s' b c began ttl later writes_ change known [(set & past & there) alone].
  destruct (change b (home c) c (clock b set + ttl) known) as [change_there _].
  assert (alone' : writes y s' c = true -> phase_of (of_core s') c = Over \/ kept exclusive s' b c began ttl).
  { intros w. destruct (alone (writes_ w)) as (set' & past' & there').
    destruct (change b (home c) c (clock b set' + ttl) known) as [_ change_alone].
    destruct there' as [has | (ended & ? & ?)].
    - destruct (change_alone w has) as [? | [? | ?]]; [right | right | auto]; exists set'; (split; [lia |]).
      + now left.
      + right. exists (moment_of s). split; [lia | assumption].
    - right. exists set'. split; [lia |]. right. exists ended. split; [lia | assumption]. }
  assert (there' : phase_of (of_core s') c = Over \/ kept present s' b c began ttl).
  { destruct there as [has | (ended & ? & ?)].
    - destruct (change_there has) as [? | [? | ?]]; [right | right | auto]; exists set; (split; [lia |]).
      + now left.
      + right. exists (moment_of s). split; [lia | assumption].
    - right. exists set. split; [lia |]. right. exists ended. split; [lia | assumption]. }
  destruct there' as [? | there']; [auto |].
  destruct (writes y s' c) eqn:w; [| right; split; [assumption | congruence]].
  destruct (alone' eq_refl) as [? | ?]; [auto | right; split; auto].
Qed.

Lemma meaning_step_by : forall s s', history (core y) (of_core s) -> meaning s ->
  (moment_of s <= moment_of s')%nat -> changes_well s s' ->
  phase_of (of_core s') marker = Idle ->
  (forall c, writes y s' c = true -> writes y s c = true) ->
  (forall c, phase_of (of_core s) c = Over -> phase_of (of_core s') c = Over) ->
  (forall b, life_of (of_core s) b <> Unborn -> life_of (of_core s') b <> Unborn) ->
  (forall b i, birth_of (of_core s) b = Some i -> birth_of (of_core s') b = Some i) ->
  (forall b c began ttl, In (b, c, began, ttl) (sets (of_core s')) ->
    In (b, c, began, ttl) (sets (of_core s)) \/ life_of (of_core s') b <> Unborn /\ safe s' b c began ttl) ->
  (forall o, In o (log (of_core s)) -> In o (log (of_core s'))) ->
  (forall o, In o (log (of_core s')) -> In o (log (of_core s)) \/ meant s' o) ->
  (forall c until, phase_of (of_core s') c = Holding until ->
    (exists old, phase_of (of_core s) c = Holding old /\ until <= old) \/ proven (core y) (of_core s) c until) ->
  meaning s'.
Proof.
  intros s s' h m later change nobody writes_ over life birth new_sets more new_log holding.
  constructor; [assumption | | | |].
  - intros b c began ttl f_in. destruct (new_sets b c began ttl f_in) as [before_ | [? _]]; [| assumption].
    apply life. now apply (sets_are_known s m b c began ttl).
  - intros b c began ttl f_in. destruct (new_sets b c began ttl f_in) as [before_ | [_ ?]]; [| auto].
    destruct (sets_are_safe s m b c began ttl before_) as [? | k]; [auto |].
    apply safe_stays with s; auto. now apply (sets_are_known s m b c began ttl).
  - intros o o_in. destruct (new_log o o_in) as [before_ | ?]; [| assumption].
    intros c began ttl is. destruct (all_meant s m o before_ c began ttl is) as [? | [k | (i & born & ?)]].
    + auto.
    + destruct (safe_stays s s' (of_body o) c began ttl later (writes_ c) change) as [? | ?]; auto.
      destruct (was_intact (core y) (of_core s) h o before_); congruence.
    + right; right. exists i. auto.
  - assert (carry : forall c until, proven (core y) (of_core s) c until -> proven (core y) (of_core s') c until).
    { intros c until (votes & began & ttl & [v of_log] & each & short & bound).
      exists votes, began, ttl. repeat split; auto; apply v. }
    intros c until at_c. destruct (holding c until at_c) as [(old & held & shorter) | p]; [| auto].
    destruct (holders_are_proven s m c old held) as (votes & began & ttl & v & each & short & bound).
    apply carry. exists votes, began, ttl. split; [assumption |]. split; [assumption |]. split; [assumption | lia].
Qed.

(* ---- how shelves change -------------------------------------------------------------------------- *)

(* A key of Guarded.v changes for a reason, and the lists stay. *)
Lemma from_core : forall s s', GuardedExclusion.changes_well (core y) (of_core s) (of_core s') ->
  lists s' = lists s -> phase_of (of_core s') marker = Idle -> changes_well s s'.
Proof.
  intros s s' change same nobody b x c least known.
  assert (token : exclusive (shelf_of s b x) c least ->
    exclusive (shelf_of s' b x) c least \/ least <= clock b (moment_of s) \/ phase_of (of_core s') c = Over).
  { intros (e & has & lives). unfold shelf_of in has. simpl in has.
    destruct (keys (of_core s) b x) as [k |] eqn:at_k; [| discriminate]. simpl in has. unfold as_held in has.
    destruct (Nat.eqb_spec (owner k) marker) as [|not]; [discriminate |]. inversion has; subst.
    destruct (change b x k known at_k) as [(k' & has' & own' & longer) | [ended | over]].
    - left. exists (ends k'). unfold shelf_of. simpl. rewrite has'. simpl. unfold as_held. rewrite own'.
      apply Nat.eqb_neq in not. rewrite not. split; [reflexivity | lia].
    - right; left. unfold now in ended. lia.
    - auto. }
  split; [| intros _; exact token].
  intros [has | (e & p & has & key_lives & place & lives)]; [destruct (token has) as [? | ?]; [left; now left | auto] |].
  unfold shelf_of in has, place. simpl in has, place.
  destruct (keys (of_core s) b x) as [k |] eqn:at_k; [| discriminate]. simpl in has. unfold as_held in has.
  destruct (Nat.eqb_spec (owner k) marker) as [own | not]; [| discriminate]. inversion has; subst.
  destruct (change b x k known at_k) as [(k' & has' & own' & longer) | [ended | over]].
  - left; right. exists (ends k'), p. unfold shelf_of. simpl. rewrite has', same. simpl. unfold as_held. rewrite own', own.
    simpl. repeat split; [lia | assumption | assumption].
  - right; left. unfold now in ended. lia.
  - rewrite own in over. congruence.
Qed.

(* One shelf of one body is replaced by another. *)
Lemma from_shelf : forall s s' b x h,
  shelf_of s' b x = h -> (forall b' x', b' <> b \/ x' <> x -> shelf_of s' b' x' = shelf_of s b' x') ->
  (forall c least, present (shelf_of s b x) c least ->
    present h c least \/ least <= clock b (moment_of s) \/ phase_of (of_core s') c = Over) ->
  (forall c least, writes y s' c = true -> exclusive (shelf_of s b x) c least ->
    exclusive h c least \/ least <= clock b (moment_of s) \/ phase_of (of_core s') c = Over) ->
  changes_well s s'.
Proof.
  intros s s' b x h is others there alone b' x' c least _.
  destruct (Nat.eq_dec b' b) as [-> |]; [destruct (Nat.eq_dec x' x) as [-> |] |]; try (rewrite others by auto; auto).
  rewrite is. auto.
Qed.

(* A shelf as Shared.v leaves it is a shelf of this system, if nobody in it is the marker. *)
Lemma held_again : forall h, (forall o e, Shared.held h = Some (Shared.Token o e) -> o <> marker) ->
  option_map as_held (option_map as_key (Shared.held h)) = Shared.held h.
Proof.
  intros h nobody. destruct (Shared.held h) as [[o e | e] |] eqn:has; simpl; try reflexivity.
  unfold as_held. simpl. destruct (Nat.eqb_spec o marker) as [-> |]; [| reflexivity].
  exfalso. now apply (nobody marker e).
Qed.

Lemma shelf_has_no_marker : forall s b x o e, Shared.held (shelf_of s b x) = Some (Shared.Token o e) -> o <> marker.
Proof.
  intros s b x o e has. unfold shelf_of in has. simpl in has. destruct (keys (of_core s) b x) as [k |]; [| discriminate].
  simpl in has. unfold as_held in has. destruct (Nat.eqb_spec (owner k) marker); [discriminate |]. inversion has. congruence.
Qed.

(* A reader's request leaves a token that was there, or none. *)
Lemma readers_set_no_token : forall cl a c ttl h h' granted, a = Shared.Share \/ a = Shared.Share_extend \/ a = Shared.Share_release ->
  Shared.serve server_rules cl (Shared.ask a c 0 ttl) h = (h', granted) ->
  forall o e, Shared.held h' = Some (Shared.Token o e) -> Shared.held h = Some (Shared.Token o e).
Proof.
  intros cl a c ttl h h' granted which served o e has.
  destruct which as [-> | [-> | ->]]; unfold Shared.serve in served; simpl in served;
    unfold Shared.share, Shared.share_extend, Shared.share_release in served;
    destruct (Shared.held h) as [[o' e' | e'] |] eqn:at_h; simpl in served;
    repeat match type of served with
    | context [match ?m with _ => _ end] => destruct m eqn:?; simpl in served
    end; inversion served; subst; simpl in has; try congruence.
Qed.

(* ---- the steps of Guarded.v ---------------------------------------------------------------------- *)

Lemma token_is_safe : forall s b c began ttl e,
  (began <= moment_of s)%nat -> c <> marker -> keys (of_core s) b (home c) = Some {| owner := c; ends := e |} ->
  (exists set, (began <= set <= moment_of s)%nat /\ clock b set + ttl <= e) -> safe s b c began ttl.
Proof.
  intros s b c began ttl e past not has (set & between & lives).
  assert (alone : kept exclusive s b c began ttl).
  { exists set. split; [assumption |]. left. exists e. unfold shelf_of. simpl. rewrite has. simpl. unfold as_held. simpl.
    apply Nat.eqb_neq in not. rewrite not. auto. }
  split; [| auto]. destruct alone as (set' & ? & [? | ?]); exists set'; (split; [assumption |]); [left; now left | auto].
Qed.

(* Nobody is the marker. *)
Lemma marker_stays_nobody : forall s e t', meaning s -> core_may y e = true -> act (core y) (of_core s) e = Some t' ->
  phase_of t' marker = Idle.
Proof.
  intros s e t' m may acts. pose proof (marker_is_nobody s m) as idle.
  destruct e; simpl in acts, may; take_apart acts; simpl; try assumption; try (apply andb_true_iff in may as [may _]);
    (rewrite update_other; [assumption |]); intros <-; discriminate.
Qed.

Lemma granted_is_safe : forall s t' b c began ttl, moment_now t' = moment_of s -> c <> marker ->
  grants_key (core y) (of_core s) t' b c began ttl -> safe (with_core s (next t')) b c began ttl.
Proof.
  intros s t' b c began ttl mo not (past & e & has & lives). eapply token_is_safe; simpl; [lia | assumption | exact has |].
  exists (moment_of s). rewrite mo. unfold now in lives. split; [lia | assumption].
Qed.

Lemma meaning_core : forall s e t', history (core y) (of_core s) -> meaning s ->
  core_may y e = true -> act (core y) (of_core s) e = Some t' -> meaning (with_core s (next t')).
Proof.
  intros s e t' h m may acts. set (t := of_core s) in *.
  assert (happens : step (core y) t e = Some (next t')) by (unfold step; now rewrite acts).
  destruct (step_adds (core y) t e (next t') happens) as (later & over & _).
  assert (mo : moment_now t' = moment_now t) by (simpl in later; congruence).
  pose proof (marker_stays_nobody s e t' m may acts) as nobody.
  destruct (step_keeps_lives (core y) t e t' h acts) as [lives births_].
  assert (change : changes_well s (with_core s (next t'))).
  { apply from_core; [exact (step_changes_well (core y) rules t e t' acts) | reflexivity | exact nobody]. }
  apply (meaning_step_by s); auto.
  - simpl. fold t. lia.
  - intros b c began ttl f_in. destruct (step_sets (core y) t e t' acts b c began ttl f_in) as [? | (-> & known & k)]; [auto |].
    right. split; [assumption |]. apply granted_is_safe; auto. intros ->. discriminate.
  - intros o. apply (log_goes_on (core y) t e t' acts).
  - intros o o_in. destruct (step_asserts (core y) rules t e t' acts o o_in) as [? | (intact_o & each)]; [auto | right].
    intros c began ttl is. destruct (each c began ttl is) as [f_in | [(i & born & first) | (t0 & -> & k)]].
    + destruct (sets_are_safe s m _ c began ttl f_in) as [? | k]; [left; apply over; assumption |].
      destruct (safe_stays s (with_core s (next t')) (of_body o) c began ttl) as [? | ?]; auto;
        [simpl; fold t; lia | fold t; congruence].
    + right; right. exists i. split; [now apply births_ | assumption].
    + right; left. apply granted_is_safe; auto. intros ->. discriminate.
  - apply (step_holds (core y) rules t e t' acts).
Qed.

(* ---- the steps of readers ------------------------------------------------------------------------ *)

(* All that the theorem rests on. *)
Record known (s : shared_state) : Prop := {
  has_history : history (core y) (of_core s);
  has_sayings : sayings (core y) (of_core s);
  has_meaning : meaning s;
}.

Lemma known_core : forall s e t', known s -> core_may y e = true -> act (core y) (of_core s) e = Some t' ->
  known (with_core s (next t')).
Proof.
  intros s e t' [h sa m] may acts.
  assert (happens : step (core y) (of_core s) e = Some (next t')) by (unfold step; now rewrite acts).
  constructor; simpl.
  - eapply history_step; eauto.
  - eapply sayings_step; eauto.
  - eapply meaning_core; eauto.
Qed.

(* The shelf that a request of a reader leaves. *)
Lemma shelf_after : forall s u b x h a c ttl granted,
  Shared.serve server_rules (server_clock (core y) b (now (core y) (of_core s))) (Shared.ask a c 0 ttl) (shelf_of s b x) = (h, granted) ->
  a = Shared.Share \/ a = Shared.Share_extend \/ a = Shared.Share_release ->
  keys u = update (keys (of_core s)) b (update (keys (of_core s) b) x (option_map as_key (Shared.held h))) ->
  let s' := with_core (with_list (with_core s u) b x (Shared.places h)) (next u) in
  shelf_of s' b x = h /\ forall b' x', b' <> b \/ x' <> x -> shelf_of s' b' x' = shelf_of s b' x'.
Proof.
  intros s u b x h a c ttl granted served which changed s'. unfold s', shelf_of. simpl. rewrite changed. split.
  - rewrite !update_same. rewrite held_again; [now destruct h |].
    intros o e has. eapply shelf_has_no_marker. eapply readers_set_no_token; eauto.
  - intros b' x' other. destruct (Nat.eq_dec b' b) as [-> |]; [| now rewrite !update_other].
    rewrite !update_same. destruct other as [? | ?]; [congruence |]. now rewrite !update_other.
Qed.

Lemma known_asks : forall s b a c began ttl t_ s', known s -> shared_act y s (Asks b a c began ttl t_) = Some s' ->
  known (with_core s' (next (of_core s'))).
Proof.
  intros s b a c began ttl t_ s' [h sa m] acts. simpl in acts.
  destruct (grants_to_reader y s b a c ttl) as [shelf |] eqn:granted; [| discriminate].
  destruct (intact (of_core s) b) eqn:is_intact; [| discriminate].
  destruct (Nat.eqb_spec c marker) as [| not]; [discriminate |]. simpl in acts.
  destruct (has_begun (of_core s) c) eqn:begun; [| discriminate].
  destruct (began <=? moment_of s)%nat eqn:past; [| discriminate]. simpl in acts. apply Nat.leb_le in past.
  inversion acts; subst; clear acts. simpl of_core. apply alive_is in is_intact.
  unfold grants_to_reader in granted.
  destruct (Shared.serve _ _ _ _) as [h' []] eqn:served; [| discriminate].
  assert (which : (a = Shared.Share \/ a = Shared.Share_extend) /\ writes y s c = false /\ h' = shelf).
  { destruct a; try discriminate.
    - destruct (Shared.reads (begins_as y c)) eqn:reader; inversion granted. unfold writes. rewrite reader. auto.
    - destruct (writes y s c); inversion granted. auto. }
  destruct which as (which & reader & ->). clear granted.
  set (u := with_log _ _). set (s' := with_core _ (next u)).
  assert (which3 : a = Shared.Share \/ a = Shared.Share_extend \/ a = Shared.Share_release) by (destruct which; auto).
  assert (after_ : shelf_of s' b (home c) = shelf /\
    forall b' x', b' <> b \/ x' <> home c -> shelf_of s' b' x' = shelf_of s b' x')
    by (eapply shelf_after; [exact served | exact which3 | reflexivity]).
  destruct after_ as [is others].
  assert (not_release : ~ SharedExclusion.is_release (Shared.ask a c 0 ttl))
    by (unfold SharedExclusion.is_release; simpl; destruct which as [-> | ->]; intros [? | ?]; discriminate).
  constructor.
  - apply history_answer; auto. intros x. apply raised_grows.
  - apply (sayings_grow (core y) (of_core s) _ [observe (of_core s) b (raised (fence (of_core s) b) (stripe_for (core y) c) t_) (Extends c began ttl)]);
      simpl; auto. intros o [<- | []]. exact past.
  - apply (meaning_step_by s); simpl; auto; try apply (marker_is_nobody s m).
    + apply (from_shelf s s' b (home c) shelf is others).
      * intros d least has.
        destruct (SharedExclusion.serve_keeps server_rules rules_are_followed _ _ _ _ _ _ _ served has) as [? | [? | [_ release]]];
          auto. contradiction.
      * intros d least w has.
        destruct (SharedExclusion.serve_keeps_exclusive server_rules rules_are_followed _ _ _ _ _ _ _ served has) as [? | [same _]];
          auto. simpl in same. subst d. change (writes y s' c) with (writes y s c) in w. congruence.
    + intros o [<- | o_in]; [right | auto]. intros c' began' ttl' asserts_.
      assert (c' = c /\ began' = began /\ ttl' = ttl) as (-> & -> & ->)
        by (destruct asserts_ as [[u0 asserts_] | asserts_]; simpl in asserts_; inversion asserts_; auto).
      right; left. split; [| change (writes y s' c) with (writes y s c); congruence].
      exists (moment_of s). simpl. split; [lia |].
      destruct (SharedExclusion.serve_grants server_rules rules_are_followed _ _ _ _ served) as ([has | ended] & _ & _).
      * left. rewrite is. exact has.
      * right. exists (moment_of s). split; [lia | exact ended].
    + intros d u0 at_d. left. exists u0. split; [assumption | lia].
Qed.

Lemma known_leaves : forall s b c s', known s -> shared_act y s (Leaves b c) = Some s' -> known (with_core s' (next (of_core s'))).
Proof.
  intros s b c s' [h sa m] acts. cbn [shared_act] in acts.
  destruct (Shared.serve _ _ _ _) as [shelf granted] eqn:served.
  destruct (phase_of (of_core s) c) eqn:over; try discriminate.
  destruct (alive (of_core s) b && negb (c =? marker)%nat); [| discriminate]. inversion acts; subst; clear acts. simpl of_core.
  set (u := with_body _ _ _ _ _). set (s' := with_core _ (next u)).
  assert (after_ : shelf_of s' b (home c) = shelf /\
    forall b' x', b' <> b \/ x' <> home c -> shelf_of s' b' x' = shelf_of s b' x')
    by (eapply shelf_after; [exact served | auto | reflexivity]).
  destruct after_ as [is others].
  constructor.
  - apply history_next, history_body; auto; intros; lia.
  - apply (sayings_grow (core y) (of_core s) _ []); simpl; auto. contradiction.
  - apply (meaning_step_by s); simpl; auto; try apply (marker_is_nobody s m).
    + apply (from_shelf s s' b (home c) shelf is others).
      * intros d least has.
        destruct (SharedExclusion.serve_keeps server_rules rules_are_followed _ _ _ _ _ _ _ served has) as [? | [? | [<- _]]]; auto.
      * intros d least w has.
        destruct (SharedExclusion.serve_keeps_exclusive server_rules rules_are_followed _ _ _ _ _ _ _ served has) as [? | [<- _]]; auto.
    + intros d u0 at_d. left. exists u0. split; [assumption | lia].
Qed.

Lemma known_place_ends : forall s b x c s', known s -> shared_act y s (Place_ends b x c) = Some s' ->
  known (with_core s' (next (of_core s'))).
Proof.
  intros s b x c s' [h sa m] acts. cbn [shared_act] in acts.
  destruct (Shared.place_of c (lists s b x)) as [e |] eqn:place; [| discriminate].
  destruct (alive (of_core s) b); [| discriminate]. simpl in acts.
  destruct (e <=? _) eqn:ended; [| discriminate]. inversion acts; subst; clear acts. simpl of_core.
  apply Z.leb_le in ended. unfold now in ended.
  set (s' := with_core _ _).
  constructor.
  - now apply history_next.
  - apply (sayings_grow (core y) (of_core s) _ []); simpl; auto. contradiction.
  - apply (meaning_step_by s); simpl; auto; try apply (marker_is_nobody s m).
    + apply (from_shelf s s' b x {| Shared.held := Shared.held (shelf_of s b x); Shared.places := Shared.without_ c (lists s b x) |}).
      * unfold s', shelf_of. simpl. now rewrite !update_same.
      * intros b' x' other. unfold s', shelf_of. simpl. destruct (Nat.eq_dec b' b) as [-> |]; [| now rewrite !update_other].
        rewrite update_same. destruct other as [? | ?]; [congruence |]. now rewrite update_other.
      * intros d least [(e' & at_h & lives) | (e' & p & at_h & key_lives & has_d & lives)].
        -- left; left. exists e'. auto.
        -- destruct (Nat.eq_dec d c) as [-> | differ].
           ++ right; left. simpl in has_d. rewrite place in has_d. inversion has_d. lia.
           ++ left; right. exists e', p. simpl in *. rewrite SharedExclusion.place_without_other by assumption. auto.
      * intros d least _ (e' & at_h & lives). left. exists e'. auto.
    + intros d u0 at_d. left. exists u0. split; [assumption | lia].
Qed.

Lemma unchanged_shelves : forall s s', keys (of_core s') = keys (of_core s) -> lists s' = lists s -> changes_well s s'.
Proof. intros s s' same same_lists b x c least _. unfold shelf_of. rewrite same, same_lists. auto. Qed.

Lemma known_reader_wins : forall s c places until s', known s -> shared_act y s (Reader_wins c places until) = Some s' ->
  known (with_core s' (next (of_core s'))).
Proof.
  intros s c places until s' [h sa m] acts. cbn [shared_act] in acts.
  destruct (phase_of (of_core s) c) as [| began ttl | |] eqn:at_c; try discriminate.
  destruct (pick (log (of_core s)) places) as [votes |] eqn:chosen; [| discriminate].
  destruct (Shared.reads (begins_as y c)); [| discriminate]. cbn [andb] in acts.
  destruct (is_view (core y) votes) eqn:v; [| discriminate]. cbn [andb] in acts.
  destruct (forallb (is_extension c began ttl) votes) eqn:for_it; [| discriminate]. cbn [andb] in acts.
  destruct (ttl <=? ttl_max (core y)) eqn:short; [| discriminate]. cbn [andb] in acts.
  destruct (until <=? _) eqn:bound; [| discriminate]. inversion acts; subst; clear acts. simpl of_core.
  rewrite forallb_forall in for_it. apply Z.leb_le in short, bound.
  assert (not : c <> marker) by (intros ->; pose proof (marker_is_nobody s m); congruence).
  constructor.
  - apply history_next. apply (history_grows (core y) (of_core s)); auto; simpl; intros; lia.
  - apply (sayings_grow (core y) (of_core s) _ []); simpl; auto. contradiction.
  - apply (meaning_step_by s); simpl; auto.
    + now apply unchanged_shelves.
    + rewrite update_other by congruence. apply (marker_is_nobody s m).
    + intros d is. destruct (Nat.eq_dec d c) as [-> |]; [congruence | now rewrite update_other].
    + intros d u0 at_d. destruct (Nat.eq_dec d c) as [-> |].
      * rewrite update_same in at_d. inversion at_d; subst. right. exists votes, began, ttl.
        split; [split; [now apply is_view_view | intros o; eapply picked; eassumption] |].
        split; [| split; assumption]. intros o o_in. right. now apply is_extension_why, for_it.
      * rewrite update_other in at_d by assumption. left. exists u0. split; [assumption | lia].
Qed.

Lemma known_downgrades : forall s c s', known s -> shared_act y s (Downgrades c) = Some s' -> known (with_core s' (next (of_core s'))).
Proof.
  intros s c s' [h sa m] acts. cbn [shared_act] in acts.
  destruct (phase_of (of_core s) c) eqn:at_c; try discriminate. inversion acts; subst; clear acts. simpl of_core.
  constructor.
  - now apply history_next.
  - apply (sayings_grow (core y) (of_core s) _ []); simpl; auto. contradiction.
  - apply (meaning_step_by s); simpl; auto; try apply (marker_is_nobody s m).
    + now apply unchanged_shelves.
    + intros d. unfold writes. simpl. destruct (Nat.eq_dec d c) as [-> |]; [rewrite update_same | now rewrite update_other].
      simpl. now rewrite andb_false_r.
    + intros d u0 at_d. left. exists u0. split; [assumption | lia].
Qed.

Lemma known_reachable : forall s, shared_reachable y s -> known s.
Proof.
  induction 1 as [| s e s' reached IH happens].
  - constructor.
    + now apply history_initial.
    + constructor; simpl; contradiction.
    + constructor; simpl; try contradiction; try discriminate. reflexivity.
  - unfold shared_step in happens. destruct (shared_act y s e) as [u |] eqn:acts; [| discriminate].
    inversion happens; subst; clear happens. destruct e.
    + cbn [shared_act] in acts. destruct (core_may y e) eqn:may; [| discriminate].
      destruct (act (core y) (of_core s) e) as [t' |] eqn:core_acts; [| discriminate]. inversion acts; subst.
      exact (known_core s e t' IH may core_acts).
    + eapply known_asks; eauto.
    + eapply known_leaves; eauto.
    + eapply known_place_ends; eauto.
    + eapply known_reader_wins; eauto.
    + eapply known_downgrades; eauto.
Qed.

(* ---- exclusion ----------------------------------------------------------------------------------- *)

Hypothesis clocks : clients_run (core y).
Hypothesis servers : forall since until, servers_run (core y) since until.

(* What a vote or an extension means now for a client that is inside validity: the body has its place, and
   of a writer its token. *)
Lemma voter_has_it : forall s c o began ttl, known s -> phase_of (of_core s) c <> Over -> ttl <= ttl_max (core y) ->
  client_clock (core y) c (now (core y) (of_core s)) < validity_end (core y) c began ttl ->
  In o (log (of_core s)) -> asserts o c began ttl ->
  (exists least, present (shelf_of s (of_body o) (home c)) c least) /\
  (writes y s c = true -> exists least, exclusive (shelf_of s (of_body o) (home c)) c least).
Proof.
  intros s c o began ttl [h sa m] not_over short valid o_in is. unfold now in valid.
  assert (has : forall what_, kept what_ s (of_body o) c began ttl -> exists least, what_ (shelf_of s (of_body o) (home c)) c least).
  { intros what_ (set & past & [has | (ended & between & lived)]); [eauto | exfalso].
    pose proof (ended_by_clock (core y) well clocks (of_core s) (of_body o) c began ttl set ended (moment_of s)
      ltac:(lia) ltac:(lia) (servers _ _) lived). lia. }
  destruct (all_meant s m o o_in c began ttl is) as [over | [[there alone] | (i & born & first)]]; [congruence | |].
  - split; [now apply has | intros w; now apply has, alone].
  - exfalso. pose proof (ended_by_birth (core y) well clocks (of_core s) (of_body o) i c began ttl (moment_of s) h born first
      short ltac:(lia)). lia.
Qed.

Lemma writer_is_alone : forall s c d x, shared_reachable y s -> has_lock (core y) (of_core s) c x ->
  has_lock (core y) (of_core s) d x -> writes y s c = true -> c = d.
Proof.
  intros s c d x reached [in_c of_c] [in_d of_d] w. pose proof (known_reachable s reached) as k.
  pose proof k as [h sa m]. unfold inside in in_c, in_d.
  destruct (phase_of (of_core s) c) as [| | until_c |] eqn:at_c; try discriminate.
  destruct (phase_of (of_core s) d) as [| | until_d |] eqn:at_d; try discriminate.
  rewrite Z.ltb_lt in in_c, in_d.
  destruct (holders_are_proven s m c until_c at_c) as (vc & bc & tc & view_c & each_c & short_c & bound_c).
  destruct (holders_are_proven s m d until_d at_d) as (vd & bd & td & view_d & each_d & short_d & bound_d).
  destruct (views_of_log_meet _ _ _ _ _ (is_lawful (core y) (of_core s) h) vc vd view_c view_d) as (o & p & o_in & p_in & same).
  destruct (same_or_replaced _ _ _ _ _ (is_lawful (core y) (of_core s) h) o p (proj2 view_c o o_in) (proj2 view_d p p_in) same)
    as [one | [(i & born & newer) | (i & born & newer)]].
  - destruct (voter_has_it s c o bc tc k ltac:(congruence) short_c ltac:(lia) (proj2 view_c o o_in) (each_c o o_in)) as [_ alone].
    destruct (voter_has_it s d p bd td k ltac:(congruence) short_d ltac:(lia) (proj2 view_d p p_in) (each_d p p_in)) as [there _].
    destruct (alone w) as (least & e & has & _). destruct there as (least' & there).
    rewrite one, of_c in has. rewrite of_d in there.
    destruct there as [(e' & has' & _) | (e' & q & has' & _)]; congruence.
  - exfalso. apply (not_replaced (core y) well clocks (of_core s) c vc bc tc o (of_body p) i); auto; lia.
  - exfalso. apply (not_replaced (core y) well clocks (of_core s) d vd bd td p (of_body o) i); auto; lia.
Qed.

End Exclusion.

(* While a client that writes is inside validity nobody else is, neither a writer nor a reader. *)
Theorem guarded_shared_exclusion : forall y, well_formed (core y) -> obeys (core y) -> clocks_run (core y) ->
  forall s, shared_reachable y s ->
  forall c d x, has_lock (core y) (of_core s) c x -> has_lock (core y) (of_core s) d x ->
  writes y s c = true -> c = d.
Proof. intros y well rules [clocks servers] s reached c d x. now apply writer_is_alone. Qed.
