(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: at no moment do two clients hold one lock, whatever data servers lose, if clocks run. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens.
Import ListNotations.
Open Scope Z_scope.

(* The client of this attempt is inside the validity of a lock on this resource. *)
Definition has_lock (y : system) (s : state) (c : attempt) (x : resource) : Prop :=
  inside y s c = true /\ resource_of y c = x.

(* No server's clock gains too much between these two times. *)
Definition servers_run (y : system) (since until : time) : Prop := forall b t t', since <= t -> t <= t' -> t' <= until ->
  million * (server_clock y b t' - server_clock y b t)
  <= (million + server_ppm y) * (t' - t) + million * server_error y.

Record clients_run (y : system) : Prop := {
  of_clients : client_clocks_run y;
  of_agents : agent_clocks_run y;
  drift_is_enough : drift_covers (drift_ppm y) (drift_fixed y) (client_ppm y) (server_ppm y)
                                 (client_error y) (server_error y);
  wait_is_enough : wait_covers y;
}.

Definition clocks_run (y : system) : Prop := clients_run y /\ forall since until, servers_run y since until.

(* With the defaults, the wait covers two clocks of which each is wrong by one per cent. *)
Lemma defaults_wait_long_enough : forall y, drift_ppm y = ppm_default -> drift_fixed y = fixed_default ->
  client_ppm y = 10000 -> agent_ppm y = 10000 -> client_error y <= fixed_default -> wait_covers y.
Proof.
  intros y p f c a e. unfold wait_covers. rewrite p, f, c, a.
  repeat split; try assumption; vm_compute; discriminate.
Qed.

Section Exclusion.
Variable y : system.
Hypothesis well : well_formed y.
Hypothesis rules : obeys y.

Notation view_of_log s := (view_of_log (members y) (member_of y) (rank_of y) (fun o => In o (log s))).

Definition asserts (o : seen) (c : attempt) (began : nat) (ttl : Z) : Prop :=
  (exists t, why o = Votes c began ttl t) \/ why o = Extends c began ttl.

(* Since the moment `set` this body had the key of attempt c, with `ttl` to live from then on. It has it
   still (or had it when it died), or the key has ended by its clock. *)
Definition kept (s : state) (b : body) (c : attempt) (began : nat) (ttl : Z) : Prop :=
  exists set, (began <= set <= moment_now s)%nat /\
    ((exists k, keys s b (resource_of y c) = Some k /\ owner k = c /\
       server_clock y b (time_at y set) + ttl <= ends k) \/
     (exists ended, (set <= ended <= moment_now s)%nat /\
       server_clock y b (time_at y set) + ttl <= server_clock y b (time_at y ended))).

(* A vote or an extension: the attempt is over, or the key was there, or the round began before the body
   was registered (the key was old data), and then it has ended since. *)
Definition meant (s : state) (o : seen) : Prop :=
  forall c began ttl, asserts o c began ttl ->
    phase_of s c = Over \/ kept s (of_body o) c began ttl \/
    exists i, birth_of s (of_body o) = Some i /\ (began <= registered_at i)%nat.

Definition proven (s : state) (c : attempt) (until : time) : Prop :=
  exists votes began ttl, view_of_log s votes /\ (forall o, In o votes -> asserts o c began ttl) /\
    ttl <= ttl_max y /\ until <= validity_end y c began ttl.

Record meaning (s : state) : Prop := {
  sets_are_known : forall b c began ttl, In (b, c, began, ttl) (sets s) -> life_of s b <> Unborn;
  sets_are_kept : forall b c began ttl, In (b, c, began, ttl) (sets s) ->
    phase_of s c = Over \/ kept s b c began ttl;
  all_meant : forall o, In o (log s) -> meant s o;
  holders_are_proven : forall c until, phase_of s c = Holding until -> proven s c until;
}.

(* A body changes keys for a reason. *)
Definition changes_well (s s' : state) : Prop :=
  forall b x k, life_of s b <> Unborn -> keys s b x = Some k ->
    (exists k', keys s' b x = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
    ends k <= server_clock y b (now y s) \/ phase_of s' (owner k) = Over.

Lemma kept_stays : forall s s' b c began ttl, (moment_now s <= moment_now s')%nat ->
  changes_well s s' -> life_of s b <> Unborn -> kept s b c began ttl ->
  phase_of s' c = Over \/ kept s' b c began ttl.
Proof.
  intros s s' b c began ttl later change known (set & past & [(k & has & own & lives) | (ended & ? & ?)]).
  - destruct (change b _ k known has) as [(k' & has' & own' & longer) | [is_over | over]].
    + right. exists set. split; [lia |]. left. exists k'. repeat split; [assumption | congruence | lia].
    + right. exists set. split; [lia |]. right. exists (moment_now s). unfold now in is_over. split; [lia | lia].
    + left. congruence.
  - right. exists set. split; [lia |]. right. exists ended. split; [lia | assumption].
Qed.

Lemma meaning_step_by : forall s s', history y s -> meaning s ->
  (moment_now s <= moment_now s')%nat -> changes_well s s' ->
  (forall c, phase_of s c = Over -> phase_of s' c = Over) ->
  (forall b, life_of s b <> Unborn -> life_of s' b <> Unborn) ->
  (forall b i, birth_of s b = Some i -> birth_of s' b = Some i) ->
  (forall b c began ttl, In (b, c, began, ttl) (sets s') ->
    In (b, c, began, ttl) (sets s) \/ life_of s' b <> Unborn /\ kept s' b c began ttl) ->
  (forall o, In o (log s) -> In o (log s')) ->
  (forall o, In o (log s') -> In o (log s) \/ meant s' o) ->
  (forall c until, phase_of s' c = Holding until ->
    (exists old, phase_of s c = Holding old /\ until <= old) \/ proven s c until) ->
  meaning s'.
Proof.
  intros s s' h m later change over life birth new_sets more new_log holding. constructor.
  - intros b c began ttl f_in. destruct (new_sets b c began ttl f_in) as [before_ | [? _]]; [| assumption].
    apply life. now apply (sets_are_known s m b c began ttl).
  - intros b c began ttl f_in. destruct (new_sets b c began ttl f_in) as [before_ | [_ ?]]; [| auto].
    destruct (sets_are_kept s m b c began ttl before_) as [? | k]; [auto |].
    apply kept_stays with s; auto. now apply (sets_are_known s m b c began ttl).
  - intros o o_in. destruct (new_log o o_in) as [before_ | ?]; [| assumption].
    intros c began ttl is. destruct (all_meant s m o before_ c began ttl is) as [? | [k | (i & born & ?)]].
    + auto.
    + destruct (kept_stays s s' (of_body o) c began ttl later change) as [? | ?]; auto.
      destruct (was_intact y s h o before_); congruence.
    + right; right. exists i. auto.
  - assert (carry : forall c until, proven s c until -> proven s' c until).
    { intros c until (votes & began & ttl & [v of_log] & each & short & bound).
      exists votes, began, ttl. repeat split; auto; apply v. }
    intros c until at_c. destruct (holding c until at_c) as [(old & held & shorter) | p]; [| auto].
    destruct (holders_are_proven s m c old held) as (votes & began & ttl & v & each & short & bound).
    apply carry. exists votes, began, ttl. split; [assumption |]. split; [assumption |]. split; [assumption | lia].
Qed.

(* ---- every step --------------------------------------------------------------------------------- *)

Lemma meaning_initial : meaning (initial y).
Proof. constructor; simpl; try contradiction; discriminate. Qed.

Lemma keys_of_others : forall s b known fences held,
  (forall x k, life_of s b <> Unborn -> keys s b x = Some k ->
    (exists k', held x = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
    ends k <= server_clock y b (now y s) \/ phase_of s (owner k) = Over) ->
  changes_well s (with_body s b known fences held).
Proof.
  intros s b known fences held own b' x k alive_ has. simpl. destruct (Nat.eq_dec b' b) as [-> |].
  - rewrite update_same. now apply own.
  - rewrite update_other by assumption. left. exists k. repeat split; [assumption | lia].
Qed.

Lemma same_keys : forall s s', keys s' = keys s -> changes_well s s'.
Proof. intros s s' same b x k _ has. left. exists k. rewrite same. repeat split; [assumption | lia]. Qed.

Lemma step_changes_well : forall t e u, act y t e = Some u ->
  changes_well t (next u).
Proof.
  intros t e u acts.
  assert (same : forall v, keys v = keys t -> changes_well t (next v)).
  { intros v is b x k _ has. left. exists k. simpl. rewrite is. repeat split; [assumption | lia]. }
  assert (one : forall v b held, keys v = update (keys t) b held ->
    (forall x k, life_of t b <> Unborn -> keys t b x = Some k ->
      (exists k', held x = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
      ends k <= server_clock y b (now y t) \/ phase_of v (owner k) = Over) ->
    changes_well t (next v)).
  { intros v b held is own b' x k alive_ has. simpl. rewrite is. destruct (Nat.eq_dec b' b) as [-> |].
    - rewrite update_same. now apply own.
    - rewrite update_other by assumption. left. exists k. repeat split; [assumption | lia]. }
  destruct e; simpl in acts; rewrite ?(keeps_rule y rules), ?rules in acts;
    repeat match type of acts with
    | (match ?m with _ => _ end) = Some _ => destruct m eqn:?; try discriminate
    end;
    try (apply when_some in acts as [ok ->]); try (inversion acts; subst; clear acts);
    try (now apply same).
  - (* Sets *)
    eapply one; [reflexivity |]. intros x k _ has. left. exists k. rewrite update_other by congruence.
    repeat split; [assumption | lia].
  - (* Raises *)
    eapply (one _ b (keys t b)); [reflexivity |]. intros x k _ has. left. exists k. repeat split; [assumption | lia].
  - (* Bumps *)
    eapply (one _ b (keys t b)); [reflexivity |]. intros x' k _ has. left. exists k. repeat split; [assumption | lia].
  - (* Extends_ *)
    rewrite !andb_true_iff in ok. destruct ok as ((_ & own) & _). apply Nat.eqb_eq in own.
    eapply one; [reflexivity |]. intros x k' _ has. left. destruct (Nat.eq_dec x (resource_of y c)) as [-> |].
    + rewrite update_same. eexists. split; [reflexivity |]. simpl. rewrite has in *.
      match goal with same : Some _ = Some _ |- _ => inversion same; subst end. split; [congruence | lia].
    + rewrite update_other by assumption. exists k'. repeat split; [assumption | lia].
  - (* Deletes *)
    apply andb_true_iff in ok as [_ own].
    eapply one; [reflexivity |]. intros x k _ has. destruct (Nat.eq_dec x (resource_of y c)) as [-> |].
    + right; right. rewrite has in own. simpl in own. apply Nat.eqb_eq in own. simpl. congruence.
    + left. exists k. rewrite update_other by assumption. repeat split; [assumption | lia].
  - (* Ends *)
    apply andb_true_iff in ok as [_ ended]. apply Z.leb_le in ended.
    eapply one; [reflexivity |]. intros x' k' _ has. destruct (Nat.eq_dec x' x) as [-> |].
    + right; left. congruence.
    + left. exists k'. rewrite update_other by assumption. repeat split; [assumption | lia].
  - (* Learns *)
    eapply (one _ b (keys t b)); [reflexivity |]. intros x k _ has. left. exists k. repeat split; [assumption | lia].
  - (* Claims *)
    eapply one; [reflexivity |]. intros x k alive_. congruence.
  - (* Installs *)
    eapply (one _ b (keys t b)); [reflexivity |]. intros x k _ has. left. exists k. repeat split; [assumption | lia].
Qed.

(* A token of this attempt, with the TTL to live from now on. *)
(* What a step does to grants and to the log. *)
Lemma step_adds : forall s e s', step y s e = Some s' ->
  moment_now s' = S (moment_now s) /\
  (forall c, phase_of s c = Over -> phase_of s' c = Over) /\
  (forall o, In o (log s') -> In o (log s) \/ moment o = moment_now s) /\
  (grants s' = grants s \/ exists g, grants s' = g :: grants s /\ won_at g = moment_now s /\ log s' = log s /\
     (exists began ttl, phase_of s (winner g) = Trying began ttl)).
Proof.
  intros s e s' happens. unfold step in happens.
  destruct (act y s e) as [u |] eqn:acts; [| discriminate]. inversion happens; subst; clear happens.
  assert (plain : forall u, moment_now u = moment_now s -> phase_of u = phase_of s -> log u = log s -> grants u = grants s ->
    moment_now (next u) = S (moment_now s) /\ (forall c, phase_of s c = Over -> phase_of (next u) c = Over) /\
    (forall o, In o (log (next u)) -> In o (log s) \/ moment o = moment_now s) /\
    (grants (next u) = grants s \/ exists g, grants (next u) = g :: grants s /\ won_at g = moment_now s /\ log (next u) = log s /\
     (exists began ttl, phase_of s (winner g) = Trying began ttl))).
  { intros v mo ph lo gr. simpl. rewrite mo, ph, lo, gr. auto. }
  assert (over_stays : forall c p, phase_of s c <> Over \/ p = Over -> forall d, phase_of s d = Over -> update (phase_of s) c p d = Over).
  { intros c p not d is. destruct (Nat.eq_dec d c) as [-> |]; [rewrite update_same; destruct not; congruence | now rewrite update_other]. }
  destruct e; simpl in acts;
    repeat match type of acts with
    | (match ?b with _ => _ end) = Some _ => destruct b eqn:?; try discriminate
    end;
    try (apply when_some in acts as [_ ->]); try (inversion acts; subst; clear acts);
    try (now apply plain);
    simpl; (split; [reflexivity |]); (split; [first [auto; fail | apply over_stays; first [left; congruence | now right]] |]);
    (split; [first [now auto | intros o [<- | ?]; now auto
                   | intros o o_in; apply in_app_iff in o_in as [o_in | ?]; [apply in_map_iff in o_in as (? & <- & _) |]; now auto] |]);
    try (now left).
  all: right; eexists; split; [reflexivity |]; simpl; eauto.
Qed.

Lemma step_keeps_lives : forall s e u, history y s -> act y s e = Some u ->
  (forall b, life_of s b <> Unborn -> life_of u b <> Unborn) /\ (forall b i, birth_of s b = Some i -> birth_of u b = Some i).
Proof.
  intros s e u h acts.
  assert (other : forall b l, l <> Unborn -> forall b', life_of s b' <> Unborn -> update (life_of s) b l b' <> Unborn).
  { intros b l known b'. destruct (Nat.eq_dec b' b) as [-> |]; [now rewrite update_same | now rewrite update_other]. }
  destruct e; simpl in acts; take_apart acts; simpl; (split; [auto; now apply other |]); auto.
  (* Installs *)
  intros b' i born. destruct (Nat.eq_dec b' b) as [-> |]; [| now rewrite update_other].
  destruct (births y s h b i born) as ([? | ?] & _); congruence.
Qed.

(* A step grants an attempt its key, from now on for this TTL. *)
Definition grants_key (s u : state) (b : body) (c : attempt) (began : nat) (ttl : Z) : Prop :=
  (began <= moment_now s)%nat /\
  exists e, keys u b (resource_of y c) = Some {| owner := c; ends := e |} /\ server_clock y b (now y s) + ttl <= e.

Lemma step_sets : forall s e u, act y s e = Some u -> forall b c began ttl, In (b, c, began, ttl) (sets u) ->
  In (b, c, began, ttl) (sets s) \/ e = Sets b c began ttl /\ life_of u b <> Unborn /\ grants_key s u b c began ttl.
Proof.
  intros s e u acts b' c' began' ttl'. destruct e; simpl in acts; take_apart acts; simpl; auto.
  - (* Sets *)
    intros [same | f_in]; [| auto]. inversion same; subst. right. split; [reflexivity |].
    match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff, Nat.leb_le in ok; destruct ok as ((alive_b & _) & begun) end.
    split; [unfold alive in alive_b; destruct (life_of s b'); congruence |]. split; [assumption |].
    simpl. rewrite !update_same. eexists. split; [reflexivity | lia].
  - (* Renames *) intros f_in. left. now apply filter_In in f_in.
Qed.

(* An observation asserts a key for a reason. *)
Lemma step_asserts : forall s e u, act y s e = Some u -> forall o, In o (log u) -> In o (log s) \/
  life_of s (of_body o) = Intact /\ forall c began ttl, asserts o c began ttl ->
    In (of_body o, c, began, ttl) (sets s) \/
    (exists i, birth_of s (of_body o) = Some i /\ (began <= registered_at i)%nat) \/
    exists t, e = Extends_ (of_body o) c began ttl t /\ grants_key s u (of_body o) c began ttl.
Proof.
  intros s e u acts o.
  assert (nothing : forall p, why o = p -> match p with Confirms _ | Is_read => True | _ => False end ->
    forall c began ttl, ~ asserts o c began ttl).
  { intros p is which c began ttl [[t is'] | is']; rewrite is' in is; subst p; exact which. }
  destruct e; simpl in acts; rewrite ?(keeps_rule y rules), ?rules in acts; take_apart acts; simpl; auto;
    try (intros [<- | ?]; [right | now left]).
  - (* Raises *)
    match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff in ok; destruct ok as ((((alive_b & _) & _) & _) & has) end.
    split; [now apply alive_is |]. intros c' began' ttl' [[t' is] | is]; inversion is; subst. simpl.
    apply orb_true_iff in has as [fact | late].
    + left. apply existsb_exists in fact as ([[[b' c''] began''] ttl''] & f_in & same).
      rewrite !andb_true_iff, !Nat.eqb_eq, Z.eqb_eq in same. now destruct same as (((-> & ->) & ->) & ->).
    + right; left. destruct (birth_of s b) as [i |]; [| discriminate]. exists i. split; [reflexivity | now apply Nat.leb_le].
  - (* Extends_ *)
    match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff, Nat.leb_le in ok; destruct ok as ((alive_b & _) & begun) end.
    split; [now apply alive_is |]. intros c' began' ttl' [[t' is] | is]; inversion is; subst. right; right. exists t.
    split; [reflexivity |]. split; [assumption |]. simpl. rewrite !update_same. eexists. split; [reflexivity | lia].
  - (* Confirms_ *) split; [now apply alive_is |]. intros ? ? ? is. now elim (nothing _ eq_refl I _ _ _ is).
  - (* Reads *) split; [now apply alive_is |]. intros ? ? ? is. now elim (nothing _ eq_refl I _ _ _ is).
  - (* Is_registered *)
    intros o_in. apply in_app_iff in o_in as [o_in | ?]; [right | now left]. apply in_map_iff in o_in as (b' & <- & b'_in).
    match goal with ok : _ && _ = true |- _ => rewrite !andb_true_iff, !forallb_forall in ok; destruct ok as ((alive_ & _) & _) end.
    split; [now apply alive_is, alive_ |]. intros ? ? ? is. now elim (nothing _ eq_refl I _ _ _ is).
Qed.

Lemma log_goes_on : forall s e u, act y s e = Some u -> incl (log s) (log u).
Proof.
  intros s e u acts o o_in. destruct e; simpl in acts; take_apart acts; simpl; auto. apply in_app_iff. auto.
Qed.

Lemma winner_is_proven : forall s c began ttl t places votes until, pick (log s) places = Some votes ->
  is_view y votes && forallb (is_vote c began ttl t) votes && (ttl <=? ttl_max y) &&
    (client_clock y c (now y s) <? validity_end y c began ttl) && (until <=? validity_end y c began ttl) = true ->
  proven s c until.
Proof.
  intros s c began ttl t places votes until chosen ok. rewrite !andb_true_iff, forallb_forall in ok.
  destruct ok as ((((v & for_it) & short) & _) & bound).
  exists votes, began, ttl. split; [split; [now apply is_view_view | intros o; eapply picked; eassumption] |].
  split; [| split; [now apply Z.leb_le | now apply Z.leb_le]].
  intros o o_in. left. exists t. now apply is_vote_why, for_it.
Qed.

Lemma extension_is_proven : forall s c began ttl places votes until old, pick (log s) places = Some votes ->
  is_view y votes && forallb (is_extension c began ttl) votes && (ttl <=? ttl_max y) &&
    (client_clock y c (now y s) <? old) && (until <=? validity_end y c began ttl) = true -> proven s c until.
Proof.
  intros s c began ttl places votes until old chosen ok. rewrite !andb_true_iff, forallb_forall in ok.
  destruct ok as ((((v & for_it) & short) & _) & bound).
  exists votes, began, ttl. split; [split; [now apply is_view_view | intros o; eapply picked; eassumption] |].
  split; [| split; [now apply Z.leb_le | now apply Z.leb_le]].
  intros o o_in. right. now apply is_extension_why, for_it.
Qed.

(* What a client believes rests on votes, or on what it believed before. *)
Lemma step_holds : forall s e u, act y s e = Some u -> forall c until, phase_of u c = Holding until ->
  (exists old, phase_of s c = Holding old /\ until <= old) \/ proven s c until.
Proof.
  intros s e u acts c' until'.
  assert (same : phase_of s c' = Holding until' -> (exists old, phase_of s c' = Holding old /\ until' <= old) \/ proven s c' until').
  { intros held. left. exists until'. split; [assumption | lia]. }
  destruct e; simpl in acts; take_apart acts; simpl; auto;
    (destruct (Nat.eq_dec c' c) as [-> |]; [rewrite update_same; intros is; inversion is; subst | now rewrite update_other]).
  - (* Wins, with a confirm round *)
    right. eapply (winner_is_proven s c _ _ t places); [eassumption |].
    match goal with ok : _ && _ && _ = true |- _ => apply andb_true_iff in ok as [ok _]; apply andb_true_iff in ok as [ok _] end.
    eassumption.
  - (* Wins *) right. eapply (winner_is_proven s c _ _ t places); eassumption.
  - (* Extended *)
    match goal with |- context [Z.max ?old until] => destruct (Z.max_spec old until) as [[_ ->] | [_ ->]] end;
      [right; eapply extension_is_proven; eassumption | left]. eexists. split; [eassumption | lia].
  - (* Cuts *) left. eexists. split; [eassumption | lia].
Qed.

Lemma granted_is_kept : forall s u b c began ttl, moment_now u = moment_now s -> grants_key s u b c began ttl ->
  kept (next u) b c began ttl.
Proof.
  intros s u b c began ttl mo (past & e & has & lives). exists (moment_now s). simpl. split; [lia |]. left.
  eexists. split; [exact has | now split].
Qed.

Lemma meaning_step : forall s e s', history y s -> meaning s -> step y s e = Some s' -> meaning s'.
Proof.
  intros s e s' h m happens. destruct (step_adds s e s' happens) as (later & over & _).
  unfold step in happens. destruct (act y s e) as [u |] eqn:acts; [| discriminate]. injection happens as <-.
  destruct (step_keeps_lives s e u h acts) as [lives births_]. pose proof (step_changes_well s e u acts) as change.
  assert (mo : moment_now u = moment_now s) by (simpl in later; congruence).
  apply (meaning_step_by s); auto.
  - lia.
  - intros b c began ttl f_in. destruct (step_sets s e u acts b c began ttl f_in) as [? | (_ & known & k)]; [auto |].
    right. split; [assumption | now apply (granted_is_kept s)].
  - intros o. apply (log_goes_on s e u acts).
  - intros o o_in. destruct (step_asserts s e u acts o o_in) as [? | (intact_o & each)]; [auto | right].
    intros c began ttl is. destruct (each c began ttl is) as [f_in | [(i & born & first) | (t & _ & k)]].
    + destruct (sets_are_kept s m _ c began ttl f_in) as [? | k]; [left; auto |].
      destruct (kept_stays s (next u) (of_body o) c began ttl) as [? | ?]; auto; [lia | congruence].
    + right; right. exists i. split; [now apply births_ | assumption].
    + right; left. now apply (granted_is_kept s).
  - apply (step_holds s e u acts).
Qed.

Lemma meaning_reachable : forall s, reachable y s -> meaning s.
Proof.
  induction 1; [apply meaning_initial |]. eapply meaning_step; eauto using history_reachable.
Qed.

(* ---- exclusion ---------------------------------------------------------------------------------- *)

Hypothesis clocks : clients_run y.

(* A round that began before a body was registered that is intact by now: its validity has ended. *)
Lemma ended_by_birth : forall s b i c began ttl n, history y s -> birth_of s b = Some i ->
  (began <= registered_at i)%nat -> ttl <= ttl_max y -> (moment_now s <= n)%nat ->
  validity_end y c began ttl <= client_clock y c (time_at y n).
Proof.
  intros s b i c began ttl n h born first short later.
  destruct (births y s h b i born) as (_ & past & _ & wait & _).
  destruct (reading _ _ _ _ _ (is_lawful y s h) b i born) as [v each].
  destruct (view_has_one y _ v) as (r & r_in). destruct (each r r_in).
  apply (outlived y well c began ttl i n); try apply clocks; auto. exists r. split; [assumption | lia].
Qed.

(* A key that has ended: the validity that rests on it ended before, and stays so. *)
Lemma ended_by_clock : forall s b c began ttl set ended n,
  (began <= set <= ended)%nat -> (ended <= moment_now s <= n)%nat ->
  servers_run y (time_at y began) (now y s) ->
  server_clock y b (time_at y set) + ttl <= server_clock y b (time_at y ended) ->
  validity_end y c began ttl <= client_clock y c (time_at y n).
Proof.
  intros s b c began ttl set ended n first later run lived.
  destruct (Z_lt_ge_dec (client_clock y c (time_at y n)) (validity_end y c began ttl)) as [valid |]; [exfalso | lia].
  unfold validity_end in valid.
  pose proof (time_goes_forward y well began set ltac:(lia)).
  pose proof (time_goes_forward y well set ended ltac:(lia)).
  pose proof (time_goes_forward y well ended n ltac:(lia)).
  pose proof (time_goes_forward y well ended (moment_now s) ltac:(lia)).
  pose proof (validity_ends_first (drift_ppm y) (drift_fixed y) (client_ppm y) (server_ppm y)
    (client_error y) (server_error y) ttl (time_at y began) (time_at y set) (time_at y ended) (time_at y n)
    (client_clock y c) (server_clock y b)) as ends_first.
  assert (server_clock y b (time_at y ended) - server_clock y b (time_at y set) < ttl); [| lia].
  apply ends_first; try assumption; try apply clocks; try lia. apply run; unfold now; lia.
Qed.

(* What a vote or an extension means now: the attempt is over, or its validity has ended for good, or the
   key is there (or was when the body died). *)
Lemma voter_has_the_key : forall s c o began ttl, history y s -> meaning s ->
  phase_of s c <> Over -> ttl <= ttl_max y -> In o (log s) -> asserts o c began ttl ->
  servers_run y (time_at y began) (now y s) ->
  (forall n, (moment_now s <= n)%nat -> validity_end y c began ttl <= client_clock y c (time_at y n)) \/
  exists k, keys s (of_body o) (resource_of y c) = Some k /\ owner k = c.
Proof.
  intros s c o began ttl h m not_over short o_in is run.
  destruct (all_meant s m o o_in c began ttl is) as [over | [k | (i & born & first)]]; [congruence | |].
  - destruct k as (set & past & [(k & has & own & _) | (ended & between & lived)]); [eauto | left].
    intros n later. apply (ended_by_clock s (of_body o) c began ttl set ended n); [lia | lia | assumption | assumption].
  - left. intros n later. eapply ended_by_birth; eauto.
Qed.

(* If a voter was replaced, the round began before its successor was registered. *)
Lemma not_replaced : forall s c votes began ttl o b i, history y s -> sayings y s ->
  client_clock y c (now y s) < validity_end y c began ttl -> ttl <= ttl_max y ->
  view_of_log s votes -> (forall p, In p votes -> asserts p c began ttl) -> In o votes ->
  birth_of s b = Some i -> replaces (member_of y) (rank_of y) b i o -> False.
Proof.
  intros s c votes began ttl o b i h sa valid short v each o_in born newer.
  destruct (view_is_older _ _ _ _ _ (is_lawful y s h) b i votes o born v o_in newer) as (p & p_in & older).
  pose proof (all_said y s sa p (proj2 v p p_in)) as says. unfold said in says.
  assert (began <= moment p)%nat.
  { destruct (each p p_in) as [[t is] | is]; rewrite is in says; [apply says | exact says]. }
  pose proof (ended_by_birth s b i c began ttl (moment_now s) h born ltac:(lia) short ltac:(lia)). unfold now in valid. lia.
Qed.

(* It is inside validity now, and will be still at the time u. *)
Definition has_lock_until (s : state) (u : time) (c : attempt) (x : resource) : Prop :=
  has_lock y s c x /\ exists until, phase_of s c = Holding until /\ client_clock y c u < until.

(* If the clocks of servers ran since the rounds began on which the two validities rest. *)
Lemma one_holder_since : forall s u since c d x, reachable y s ->
  (forall c began ttl, client_clock y c u < validity_end y c began ttl -> ttl <= ttl_max y -> (began <= moment_now s)%nat ->
    since <= time_at y began) ->
  servers_run y since (now y s) -> has_lock_until s u c x -> has_lock_until s u d x -> c = d.
Proof.
  intros s u since c d x reached late run ((in_c & of_c) & until_c & at_c & valid_c) ((in_d & of_d) & until_d & at_d & valid_d).
  pose proof (history_reachable y well rules s reached) as h. pose proof (sayings_reachable y well rules s reached) as sa.
  pose proof (meaning_reachable s reached) as m. unfold inside in in_c, in_d.
  rewrite at_c in in_c. rewrite at_d in in_d. rewrite Z.ltb_lt in in_c, in_d.
  destruct (holders_are_proven s m c until_c at_c) as (vc & bc & tc & view_c & each_c & short_c & bound_c).
  destruct (holders_are_proven s m d until_d at_d) as (vd & bd & td & view_d & each_d & short_d & bound_d).
  assert (narrow : forall e b t, client_clock y e u < validity_end y e b t -> t <= ttl_max y ->
    (forall o, asserts o e b t -> In o (log s) -> (b <= moment_now s)%nat -> servers_run y (time_at y b) (now y s))).
  { intros e b t valid short o is o_in past k u1 u2 ? ? ?. apply run; try lia. specialize (late e b t valid short past). lia. }
  assert (past : forall o e b t, asserts o e b t -> In o (log s) -> (b <= moment_now s)%nat).
  { intros o e b t is o_in. pose proof (all_said y s sa o o_in) as says. pose proof (is_past y s h o o_in). unfold said in says.
    destruct is as [[v is] | is]; rewrite is in says; lia. }
  destruct (views_of_log_meet _ _ _ _ _ (is_lawful y s h) vc vd view_c view_d) as (o & p & o_in & p_in & same).
  pose proof (proj2 view_c o o_in) as o_log. pose proof (proj2 view_d p p_in) as p_log.
  pose proof (each_c o o_in) as is_c. pose proof (each_d p p_in) as is_d.
  destruct (same_or_replaced _ _ _ _ _ (is_lawful y s h) o p o_log p_log same)
    as [one | [(i & born & newer) | (i & born & newer)]].
  - destruct (voter_has_the_key s c o bc tc h m ltac:(congruence) short_c o_log is_c
      (narrow c bc tc ltac:(lia) short_c o is_c o_log (past o c bc tc is_c o_log)))
      as [ended | (k & has & own)]; [specialize (ended _ (Nat.le_refl _)); unfold now in *; lia |].
    destruct (voter_has_the_key s d p bd td h m ltac:(congruence) short_d p_log is_d
      (narrow d bd td ltac:(lia) short_d p is_d p_log (past p d bd td is_d p_log)))
      as [ended | (k' & has' & own')]; [specialize (ended _ (Nat.le_refl _)); unfold now in *; lia |].
    rewrite one in has. congruence.
  - exfalso. apply (not_replaced s c vc bc tc o (of_body p) i); auto; lia.
  - exfalso. apply (not_replaced s d vd bd td p (of_body o) i); auto; lia.
Qed.

(* No lease is as long as ttl_max. *)
Lemma began_within_ttl_max : forall s u c began ttl, 0 <= server_ppm y -> now y s <= u ->
  client_clock y c u < validity_end y c began ttl -> ttl <= ttl_max y -> (began <= moment_now s)%nat ->
  u - ttl_max y <= time_at y began.
Proof.
  intros s u c began ttl fast later valid short past.
  pose proof (time_goes_forward y well _ _ past) as before_. unfold now in later.
  pose proof (of_clients y clocks c (time_at y began) u ltac:(lia)) as shown.
  destruct (drift_is_enough y clocks) as (p & b & rates & _). destruct (wait_is_enough y clocks) as (_ & _ & _ & _ & _ & _ & errors).
  pose proof (drift_rounds_up (drift_ppm y) (drift_fixed y) ttl) as [round _]. unfold validity_end in valid.
  set (span := u - time_at y began) in *. assert (0 <= span) by (unfold span; lia).
  assert (rate : million - drift_ppm y <= million - client_ppm y) by (unfold million in *; nia).
  assert (used : (million - client_ppm y) * span < (million - drift_ppm y) * ttl) by (unfold million in *; lia).
  enough (span <= ttl) by (unfold span in *; lia).
  destruct (Z_le_gt_dec span ttl) as [| longer]; [assumption | exfalso].
  assert (0 <= million - drift_ppm y) by lia. nia.
Qed.

(* ---- tokens follow the order of wins ------------------------------------------------------------- *)

Hypothesis servers : forall since until, servers_run y since until.

(* When g was won, each of its voters had its key. So a rival's vote of the same body, for the same
   resource, came to nothing: the rival is over, or its validity has ended for good. *)
Definition rivals_lost (s : state) : Prop :=
  forall g a a' c began ttl t, In g (grants s) -> In a (won_by g) -> In a' (log s) ->
    of_body a = of_body a' -> why a' = Votes c began ttl t -> (moment a' < won_at g)%nat ->
    c <> winner g -> resource_of y c = resource_of y (winner g) -> ttl <= ttl_max y ->
    phase_of s c = Over \/
    forall n, (moment_now s <= n)%nat -> validity_end y c began ttl <= client_clock y c (time_at y n).

(* So where two grants have a body in common, it voted in the order of the wins. *)
Definition votes_in_order (s : state) : Prop :=
  forall g g' a a', In g (grants s) -> In g' (grants s) -> In a (won_by g) -> In a' (won_by g') ->
    of_body a = of_body a' -> winner g <> winner g' -> resource_of y (winner g) = resource_of y (winner g') ->
    (won_at g < won_at g')%nat -> (moment a < moment a')%nat.

Lemma order_step : forall s e s', history y s -> sayings y s -> meaning s -> history y s' -> sayings y s' ->
  rivals_lost s -> votes_in_order s -> step y s e = Some s' -> rivals_lost s' /\ votes_in_order s'.
Proof.
  intros s e s' h sa m h' sa' lost order happens.
  destruct (step_adds s e s' happens) as (next_ & over & new_log & new_grant).
  assert (lost_stays : forall g a a' c began ttl t, In g (grants s) -> In a (won_by g) -> In a' (log s') ->
    of_body a = of_body a' -> why a' = Votes c began ttl t -> (moment a' < won_at g)%nat ->
    c <> winner g -> resource_of y c = resource_of y (winner g) -> ttl <= ttl_max y ->
    phase_of s' c = Over \/
    forall n, (moment_now s' <= n)%nat -> validity_end y c began ttl <= client_clock y c (time_at y n)).
  { intros g a a' c began ttl t g_in a_in a'_in same is before_ differ common short.
    pose proof (is_won_before y s g (all_won y s sa g g_in)).
    destruct (new_log a' a'_in) as [a'_in' | at_now]; [| lia].
    destruct (lost g a a' c began ttl t g_in a_in a'_in' same is before_ differ common short) as [? | ended]; [auto |].
    right. intros n later. apply ended. lia. }
  destruct new_grant as [same | (w & added & at_now & same_log & (began_w & ttl_w & trying))].
  - split.
    + intros g a a' c began ttl t g_in. rewrite same in g_in. now apply lost_stays.
    + intros g g' a a' g_in g'_in. rewrite same in *. now apply order.
  - assert (w_won : won y s' w) by (apply (all_won y s' sa'); rewrite added; simpl; auto).
    split.
    + intros g a a' c began ttl t g_in. rewrite added in g_in. destruct g_in as [<- | g_in]; [| now apply lost_stays].
      intros a_in a'_in same is before_ differ common short.
      rewrite same_log in a'_in.
      assert (a_log : In a (log s)) by (rewrite <- same_log; apply (votes_are_a_view y s' w w_won), a_in).
      destruct (votes_are_for_it y s' w w_won a a_in) as [is_w _].
      destruct (voter_has_the_key s (winner w) a (began_at w) (won_ttl w) h m ltac:(congruence)
        (within_ttl_max y s' w w_won) a_log ltac:(left; eauto) (servers _ _)) as [ended | (k & has & own)].
      { exfalso. specialize (ended _ (Nat.le_refl _)). pose proof (in_validity y s' w w_won). rewrite at_now in *. lia. }
      destruct (phase_of s c) eqn:at_c; try (now left; apply over);
        (destruct (voter_has_the_key s c a' began ttl h m ltac:(congruence) short a'_in ltac:(left; eauto) (servers _ _))
           as [ended | (k' & has' & own')];
         [right; intros n later; apply ended; lia | exfalso; rewrite <- same, common in has'; congruence]).
    + intros g g' a a' g_in g'_in a_in a'_in same differ common first.
      rewrite added in g_in, g'_in. destruct g'_in as [<- | g'_in].
      * destruct g_in as [<- | g_in]; [lia |].
        destruct (le_lt_dec (moment a') (moment a)) as [wrong |]; [exfalso | assumption].
        destruct (votes_are_for_it y s' w w_won a' a'_in) as [is_w _].
        pose proof (all_won y s sa g g_in) as g_won.
        destruct (votes_are_for_it y s g g_won a a_in) as [_ a_before].
        assert (a'_log : In a' (log s)) by (rewrite <- same_log; apply (votes_are_a_view y s' w w_won), a'_in).
        destruct (lost g a a' (winner w) (began_at w) (won_ttl w) (fencing_token w) g_in a_in a'_log same is_w
          ltac:(lia) ltac:(congruence) ltac:(congruence) (within_ttl_max y s' w w_won)) as [? | ended]; [congruence |].
        specialize (ended _ (Nat.le_refl _)). pose proof (in_validity y s' w w_won). rewrite at_now in *. lia.
      * destruct g_in as [<- | g_in]; [| now apply (order g g' a a')].
        pose proof (is_won_before y s g' (all_won y s sa g' g'_in)). lia.
Qed.

Lemma order_reachable : forall s, reachable y s -> rivals_lost s /\ votes_in_order s.
Proof.
  induction 1 as [| s e s' reached [lost order] happens].
  - split; intros g; simpl; contradiction.
  - assert (reached' : reachable y s') by eauto using and_then.
    apply (order_step s e s'); auto;
      first [now apply history_reachable | now apply sayings_reachable | now apply meaning_reachable].
Qed.

Lemma higher_after_win : forall s g g', reachable y s -> In g (grants s) -> In g' (grants s) ->
  winner g <> winner g' -> resource_of y (winner g) = resource_of y (winner g') ->
  (won_at g < won_at g')%nat -> fencing_token g < fencing_token g'.
Proof.
  intros s g g' reached g_in g'_in differ common first.
  pose proof (history_reachable y well rules s reached) as h. pose proof (sayings_reachable y well rules s reached) as sa.
  pose proof (is_lawful y s h) as law.
  pose proof (all_won y s sa g g_in) as w. pose proof (all_won y s sa g' g'_in) as w'.
  assert (stripes : stripe_for y (winner g') = stripe_for y (winner g)) by (unfold stripe_for; congruence).
  destruct (views_of_log_meet _ _ _ _ _ law (won_by g) (won_by g') (votes_are_a_view y s g w) (votes_are_a_view y s g' w'))
    as (a & a' & a_in & a'_in & same).
  destruct (vote_of y s g a w sa a_in) as (a_log & [_ is] & _).
  destruct (vote_of y s g' a' w' sa a'_in) as (a'_log & raised' & begun'). rewrite stripes in raised'.
  destruct (same_or_replaced _ _ _ _ _ law a a' a_log a'_log same) as [one | [(i & born & newer) | (i & born & newer)]].
  - pose proof (proj2 (order_reachable s reached) g g' a a' g_in g'_in a_in a'_in one differ common first) as in_order.
    destruct (keeps _ _ _ _ _ law a a' a_log a'_log one in_order) as [_ kept_]. specialize (kept_ (stripe_for y (winner g))).
    destruct raised'. lia.
  - assert (done : complete (members y) (member_of y) (rank_of y) (fun o => In o (log s)) (birth_of s)
      (stripe_for y (winner g)) (fencing_token g) (won_at g) (won_by g))
      by (apply complete_by_clocks; auto; apply clocks).
    exact (successor_is_higher _ _ _ _ _ law _ _ _ _ _ a _ i a' done a_in born newer a'_log eq_refl raised').
  - (* the later winner's voter had been replaced before the earlier one won *)
    exfalso. destruct (votes_are_for_it y s g w a a_in) as [_ a_before].
    destruct (view_is_older _ _ _ _ _ law _ i (won_by g') a' born (votes_are_a_view y s g' w') a'_in newer) as (p & p_in & older).
    destruct (vote_of y s g' p w' sa p_in) as (_ & _ & begun).
    pose proof (intact_when_seen _ _ _ _ _ law a i a_log born).
    destruct (births y s h _ i born) as (_ & _ & _ & wait & _).
    destruct (reading _ _ _ _ _ law _ i born) as [v each]. destruct (view_has_one y _ v) as (r & r_in). destruct (each r r_in).
    pose proof (outlived y well (winner g') (began_at g') (won_ttl g') i (won_at g') (of_agents y clocks) (of_clients y clocks)
      (wait_is_enough y clocks) wait ltac:(lia) (within_ttl_max y s g' w') ltac:(exists r; split; [assumption | lia])).
    pose proof (in_validity y s g' w'). lia.
Qed.

End Exclusion.

(* At no moment are two clients inside the validity of a lock on the same resource. *)
Theorem guarded_exclusion : forall y, well_formed y -> obeys y -> clocks_run y ->
  forall s, reachable y s ->
  forall c d x, has_lock y s c x -> has_lock y s d x -> c = d.
Proof.
  intros y well rules [clocks servers] s reached c d x has_c has_d.
  assert (still : forall e, has_lock y s e x -> has_lock_until y s (now y s) e x).
  { intros e has. split; [assumption |]. destruct has as [in_e _]. unfold inside in in_e.
    destruct (phase_of s e) as [| | until |]; try discriminate. exists until. split; [reflexivity | now apply Z.ltb_lt]. }
  apply (one_holder_since y well rules clocks s (now y s) (time_at y 0) c d x); auto.
  intros. apply (time_goes_forward y well). lia.
Qed.

(* A server's clock that steps forward ends keys early. Exclusion rests on the last ttl_max of time alone: it holds
   until the step, and from ttl_max after it. *)
Theorem exclusion_between_steps : forall y, well_formed y -> obeys y -> clients_run y -> 0 <= server_ppm y ->
  forall s, reachable y s ->
  forall u, now y s <= u -> servers_run y (u - ttl_max y) (now y s) ->
  forall c d x, has_lock_until y s u c x -> has_lock_until y s u d x -> c = d.
Proof.
  intros y well rules clocks fast s reached u later run c d x.
  apply (one_holder_since y well rules clocks s u (u - ttl_max y)); [assumption | | assumption].
  intros e began ttl. now apply (began_within_ttl_max y well clocks s).
Qed.

(* If clocks run, tokens grow in the order in which a lock is acquired, also among attempts that were
   under way at the same time. *)
Theorem tokens_follow_wins : forall y, well_formed y -> obeys y -> clocks_run y ->
  forall s, reachable y s ->
  forall g g', In g (grants s) -> In g' (grants s) ->
  winner g <> winner g' -> resource_of y (winner g) = resource_of y (winner g') ->
  (won_at g < won_at g')%nat -> fencing_token g < fencing_token g'.
Proof. intros y well rules [clocks servers] s reached g g'. now apply higher_after_win. Qed.
