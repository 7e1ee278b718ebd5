(* SPDX-License-Identifier: BSD-2-Clause

   Slots: each slot has at most one holder, all holders were given the same K, and so at most K hold. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic Slots.
Import ListNotations.
Open Scope Z_scope.

(* ---- what the script does to each slot --------------------------------------------------------- *)

Definition asked_for (y : system) (r : request) : list slot :=
  match what r with Choose => order_of y (by_ r) | Take k => [k] | _ => [] end.

(* Why a request deletes what its own attempt has in slot j. *)
Definition deletes (r : request) (j : slot) : Prop :=
  what r = Release \/ what r = Choose \/ exists k, (what r = Take k \/ what r = Leave k) /\ j <> k.

Definition fresh (clock : time) (r : request) : key := {| owner := by_ r; ends := clock + ttl r |}.

Lemma is_own_true : forall c k, is_own c k = true -> exists key, k = Some key /\ owner key = c.
Proof. intros c [key |] own; [| discriminate]. exists key. split; [reflexivity | now apply Nat.eqb_eq in own]. Qed.

Lemma first_slot_is : forall y c order held k, first_slot y c order held = Some k ->
  In k order /\ (is_own c (held k) = true \/ held k = None).
Proof.
  intros y c order held k found. unfold first_slot in found.
  assert (second : find (fun k => is_own c (held k) || is_free (held k)) order = Some k ->
    In k order /\ (is_own c (held k) = true \/ held k = None)).
  { intros by_second. apply find_some in by_second as [? either]. split; [assumption |].
    apply orb_true_iff in either as [? | free]; [auto |]. right. destruct (held k); [discriminate | reflexivity]. }
  destruct (keeps_own_slot y); [| auto].
  destruct (find (fun k => is_own c (held k)) order) eqn:own; [| auto].
  inversion found; subst. apply find_some in own as [? ?]. auto.
Qed.

(* What becomes of slot j. *)
Inductive becomes (y : system) (clock : time) (r : request) (held held' : slot -> option key)
  (taken : option slot) (j : slot) : Prop :=
| Stays : held' j = held j -> becomes y clock r held held' taken j
| Is_extended : forall key, held j = Some key -> owner key = by_ r -> what r = Extend j ->
    held' j = Some {| owner := by_ r; ends := Z.max (ends key) (clock + ttl r) |} ->
    becomes y clock r held held' taken j
| Is_taken : held j = None -> held' j = Some (fresh clock r) -> In j (asked_for y r) ->
    (compares_numbers y = true -> numbers_agree y (by_ r) held = true) ->
    (forall i, i <> j -> is_own (by_ r) (held' i) = false) ->
    what r = Choose \/ what r = Take j -> taken = Some j ->
    becomes y clock r held held' taken j
| Is_deleted : forall key, held j = Some key -> owner key = by_ r -> held' j = None -> deletes r j ->
    taken <> Some j -> becomes y clock r held held' taken j.

Lemma take_becomes : forall y clock r order held held' taken j,
  take y clock r order held = (held', taken) -> asked_for y r = order ->
  (what r = Choose \/ exists k, what r = Take k) ->
  becomes y clock r held held' taken j.
Proof.
  intros y clock r order held held' taken j served asked kind. unfold take in served.
  destruct (compares_numbers y && negb (numbers_agree y (by_ r) held)) eqn:agree; inversion served; subst; clear served.
  { now apply Stays. }
  destruct (first_slot y (by_ r) (asked_for y r) held) as [k |] eqn:found.
  - destruct (first_slot_is _ _ _ _ _ found) as [k_in own_or_free].
    destruct (Nat.eqb_spec j k) as [-> | other].
    + destruct (is_own (by_ r) (held k)) eqn:own.
      * apply Stays. now rewrite Nat.eqb_refl, own.
      * destruct own_or_free as [? | free]; [discriminate |].
        apply Is_taken; try assumption; try reflexivity.
        -- now rewrite Nat.eqb_refl, own.
        -- intros compares. rewrite compares in agree. now destruct (numbers_agree y (by_ r) held).
        -- intros i differ. apply Nat.eqb_neq in differ. rewrite differ.
           destruct (is_own (by_ r) (held i)) eqn:own_i; [reflexivity | assumption].
        -- destruct kind as [? | [k' at_k']]; [auto |]. right. unfold asked_for in k_in. rewrite at_k' in k_in.
           destruct k_in as [-> | []]. assumption.
    + destruct (is_own (by_ r) (held j)) eqn:own.
      * destruct (is_own_true _ _ own) as (key & has & owns).
        apply Is_deleted with key; try assumption; [| | congruence].
        -- apply Nat.eqb_neq in other. now rewrite other, own.
        -- unfold deletes. destruct kind as [? | [k' at_k']]; [auto |]. right; right. exists k'.
           split; [auto |]. unfold asked_for in k_in. rewrite at_k' in k_in. destruct k_in as [-> | []]. assumption.
      * apply Stays. apply Nat.eqb_neq in other. now rewrite other, own.
  - destruct (is_own (by_ r) (held j)) eqn:own; [| apply Stays; now rewrite own].
    destruct (is_own_true _ _ own) as (key & has & owns).
    apply Is_deleted with key; try assumption; [now rewrite own | | discriminate].
    unfold deletes. destruct kind as [? | [k at_k]]; [auto |]. right; right. exists k. split; [auto |].
    intros <-. unfold first_slot, asked_for in found. rewrite at_k in found. simpl in found. rewrite own in found.
    simpl in found. destruct (keeps_own_slot y); discriminate.
Qed.

Lemma serve_becomes : forall y clock r held held' taken j,
  serve y clock r held = (held', taken) -> becomes y clock r held held' taken j.
Proof.
  intros y clock r held held' taken j served. unfold serve in served.
  destruct (what r) eqn:kind.
  - eapply take_becomes; [eassumption | unfold asked_for; now rewrite kind | auto].
  - eapply take_becomes; [eassumption | unfold asked_for; now rewrite kind | eauto].
  - destruct (held k) as [key |] eqn:has; [| inversion served; now apply Stays].
    destruct (Nat.eqb_spec (owner key) (by_ r)) as [own |]; [| inversion served; now apply Stays].
    inversion served; subst; clear served. destruct (Nat.eq_dec j k) as [-> | other].
    + apply Is_extended with key; try assumption. now rewrite update_same.
    + apply Stays. now rewrite update_other.
  - inversion served; subst; clear served.
    destruct (is_own (by_ r) (held j)) eqn:own; [| apply Stays; unfold delete_but; now rewrite own].
    destruct (Nat.eqb_spec j k) as [-> | other].
    + apply Stays. unfold delete_but. now rewrite Nat.eqb_refl, andb_false_r.
    + destruct (is_own_true _ _ own) as (key & has & owns). apply Is_deleted with key; try assumption; [| | discriminate].
      * unfold delete_but. apply Nat.eqb_neq in other. now rewrite own, other.
      * right; right. exists k. auto.
  - inversion served; subst; clear served.
    destruct (is_own (by_ r) (held j)) eqn:own; [| apply Stays; unfold delete_but; now rewrite own].
    destruct (is_own_true _ _ own) as (key & has & owns). apply Is_deleted with key; try assumption; [| | discriminate].
    + unfold delete_but. now rewrite own.
    + unfold deletes. auto.
Qed.

(* A slot that is granted is held for the attempt: as before, or for the TTL from now on. *)
Lemma serve_grants : forall y clock r held held' k, serve y clock r held = (held', Some k) ->
  exists key, held' k = Some key /\ owner key = by_ r /\
    ((held k = Some key /\ (what r = Choose \/ what r = Take k)) \/ clock + ttl r <= ends key) /\
    (what r = Choose \/ what r = Take k \/ what r = Extend k).
Proof.
  intros y clock r held held' k served.
  assert (kind : what r = Choose \/ what r = Take k \/ what r = Extend k).
  { unfold serve, take in served. destruct (what r) eqn:at_; auto.
    - right; left. destruct (compares_numbers y && _); [discriminate |]. injection served as _ found.
      apply first_slot_is in found as [[-> | []] _]. reflexivity.
    - right; right. destruct (held k0) as [key |]; [| discriminate].
      destruct (owner key =? by_ r)%nat; inversion served. reflexivity.
    - discriminate.
    - discriminate. }
  destruct (serve_becomes _ _ _ _ _ _ k served) as [stays | key has own at_ new | free new _ _ _ _ _ | key _ _ _ _ wrong].
  - assert (own : is_own (by_ r) (held k) = true \/ what r = Extend k /\ exists key, held' k = Some key /\
        owner key = by_ r /\ clock + ttl r <= ends key).
    { unfold serve, take in served. destruct (what r) eqn:at_.
      - left. destruct (compares_numbers y && _); [discriminate |]. injection served as at_k found.
        pose proof found as found'. apply first_slot_is in found as [_ [? | free]]; [assumption |].
        exfalso. subst held'. rewrite free in stays. cbv beta in stays. rewrite found', Nat.eqb_refl in stays.
        simpl in stays. discriminate.
      - left. destruct (compares_numbers y && _); [discriminate |]. injection served as at_k found.
        pose proof found as found'. apply first_slot_is in found as [_ [? | free]]; [assumption |].
        exfalso. subst held'. rewrite free in stays. cbv beta in stays. rewrite found', Nat.eqb_refl in stays.
        simpl in stays. discriminate.
      - right. destruct (held k0) as [key |]; [| discriminate]. destruct (owner key =? by_ r)%nat; inversion served; subst.
        split; [reflexivity |]. rewrite update_same. eexists. split; [reflexivity |]. simpl. split; [reflexivity | lia].
      - discriminate.
      - discriminate. }
    destruct own as [own | [_ (key & has & owns & lives)]]; [| eauto 6].
    destruct (is_own_true _ _ own) as (key & has & owns). exists key.
    repeat split; [congruence | assumption | | assumption].
    destruct kind as [? | [? | at_]]; [auto | auto |]. right.
    unfold serve in served. rewrite at_, has, owns, Nat.eqb_refl in served. inversion served; subst.
    rewrite update_same, has in stays. inversion stays as [same]. rewrite <- same. simpl. lia.
  - rewrite new. eexists. split; [reflexivity |]. simpl. split; [reflexivity |]. split; [right; lia | assumption].
  - rewrite new. eexists. split; [reflexivity |]. simpl. split; [reflexivity |]. split; [right; lia | assumption].
  - congruence.
Qed.

(* ---- the invariant ----------------------------------------------------------------------------- *)

Section Exclusion.
Variable y : system.
Hypothesis assumed : assumed_for_locks y.
Hypothesis fit : orders_fit y.
Hypothesis one_slot : follows Counts_one_slot y.
Hypothesis first_harmless : follows First_moves_nothing y.

Notation clock m t := (server_clock (base y) m t).

(* The attempt is over, or it settled on another slot: what it has of this one does not matter. *)
Definition forgone (s : state) (c : attempt) (k : slot) : Prop :=
  phase_of s c = Over \/ exists k', chosen s c = Some k' /\ k' <> k.

(* It settled on this slot, if it is not over. *)
Definition only (s : state) (c : attempt) (k : slot) : Prop := phase_of s c = Over \/ chosen s c = Some k.

(* The server has the key of this slot for attempt c until `least`, or that has come. *)
Definition kept (s : state) (m : server) (c : attempt) (k : slot) (set least : time) : Prop :=
  (exists key, keys s m k = Some key /\ owner key = c /\ least <= ends key) \/
  (exists t, set <= t <= now s /\ least <= clock m t).

Definition meant (s : state) (v : vote) : Prop :=
  let q := granted v in
  exists m set, reaches (base y) (voter v) m = true /\ since q <= set <= now s /\
    (forgone s (of_ q) (place q) \/ kept s m (of_ q) (place q) set (clock m set + span q)).

Definition proven (s : state) (c : attempt) (k : slot) (until : time) : Prop :=
  exists q, of_ q = c /\ place q = k /\ since q <= now s /\ majority y s q = true /\ until <= validity_end y q.

Definition takes (r : request) : Prop := what r = Choose \/ exists k, what r = Take k.

Record invariant (s : state) : Prop := {
  requests_are_past : forall r, In r (sent s) -> began r <= now s;
  senders_began : forall r, In r (sent s) -> phase_of s (by_ r) <> Idle;
  moves_are_chosen : forall r k, In r (sent s) -> what r = Take k \/ what r = Leave k -> only s (by_ r) k;
  moves_fit : forall r k, In r (sent s) -> what r = Take k -> In k (order_of y (by_ r));
  releases_come_last : forall r, In r (sent s) -> what r = Release -> phase_of s (by_ r) = Over;
  one_ttl : forall r t ttl_ k, In r (sent s) -> takes r -> phase_of s (by_ r) = Trying t ttl_ k -> ttl r = ttl_;
  tries_are_past : forall c t ttl k, phase_of s c = Trying t ttl k -> t <= now s;
  choices_fit : forall c k, chosen s c = Some k -> In k (order_of y c);
  owners_are_known : forall m k key, keys s m k = Some key ->
    phase_of s (owner key) <> Idle /\ seen s m (owner key) = true /\ In k (order_of y (owner key));
  one_key_each : forall m k k' key key', keys s m k = Some key -> keys s m k' = Some key' ->
    owner key = owner key' -> k = k';
  keys_of_tries_live : forall m k key t ttl o, keys s m k = Some key -> phase_of s (owner key) = Trying t ttl o ->
    exists set, t <= set <= now s /\ clock m set + ttl <= ends key;
  numbers_are_one : compares_numbers y = true -> forall m k k' key key' a b, keys s m k = Some key ->
    keys s m k' = Some key' -> number_of y (owner key) = Some a -> number_of y (owner key') = Some b -> a = b;
  votes_are_meant : forall v, In v (votes s) -> meant s v;
  holders_are_proven : forall c k until, phase_of s c = Holding k until -> proven s c k until;
}.

(* ---- nothing that is known of votes is lost ---------------------------------------------------- *)

Lemma proven_stays : forall s s' c k until,
  now s <= now s' -> incl (votes s) (votes s') -> proven s c k until -> proven s' c k until.
Proof.
  intros s s' c k until later more (q & of_c & at_k & past & won & bound).
  exists q. repeat split; try assumption; [lia |].
  unfold majority in *. rewrite Nat.leb_le in *. etransitivity; [apply won |].
  unfold voters. clear won. induction (list_of (base y) (of_ q)) as [| n l IH]; simpl; [lia |].
  destruct (existsb _ (votes s)) eqn:voted.
  - assert (still : existsb (fun v => (voter v =? n)%nat && (steady (base y) (of_ q) n && counts y q (granted v)))
      (votes s') = true).
    { apply existsb_exists. apply existsb_exists in voted as (v & ? & ?). exists v. auto. }
    rewrite still. simpl. lia.
  - destruct (existsb _ (votes s')); simpl; lia.
Qed.

Definition changes_well (s s' : state) : Prop := forall m k key, keys s m k = Some key ->
  (exists key', keys s' m k = Some key' /\ owner key' = owner key /\ ends key <= ends key') \/
  ends key <= clock m (now s) \/ forgone s' (owner key) k.

Lemma meant_stays : forall s s' v, now s <= now s' ->
  (forall c k, forgone s c k -> forgone s' c k) -> changes_well s s' -> meant s v -> meant s' v.
Proof.
  intros s s' v later gone well (m & set & at_m & past & what_for).
  exists m, set. split; [assumption |]. split; [lia |].
  destruct what_for as [? | [(key & has & own & lives) | (t & ? & ?)]]; [auto | |].
  - destruct (well m _ key has) as [(key' & has' & own' & longer) | [ended | gone']].
    + right; left. exists key'. repeat split; [assumption | congruence | lia].
    + right; right. exists (now s). split; lia.
    + left. now rewrite <- own.
  - right; right. exists t. split; [lia | assumption].
Qed.

Lemma same_keys_change_well : forall s s', keys s' = keys s -> changes_well s s'.
Proof. intros s s' same m k key has. left. exists key. rewrite same. repeat split; [assumption | lia]. Qed.

(* How a phase may change, as far as keys and votes go. *)
Record goes_on (s : state) (c : attempt) (p : phase) : Prop := {
  over_stays : phase_of s c = Over -> p = Over;
  has_begun : p <> Idle;
  choice_stays : forall k, chosen s c = Some k -> chosen (with_phase s c p) c = Some k \/ p = Over;
  choice_fits : forall k, chosen (with_phase s c p) c = Some k -> In k (order_of y c);
  try_stays : forall t ttl o, p = Trying t ttl o ->
    t <= now s /\ ((exists o', phase_of s c = Trying t ttl o') \/ phase_of s c = Idle);
  win_is_proven : forall k until, p = Holding k until -> proven s c k until;
}.

Lemma chosen_other : forall s c p d, d <> c -> chosen (with_phase s c p) d = chosen s d.
Proof. intros. unfold chosen. simpl. now rewrite update_other. Qed.

Lemma forgone_goes_on : forall s c p, goes_on s c p ->
  forall d k, forgone s d k -> forgone (with_phase s c p) d k.
Proof.
  intros s c p [not _ stays _ _ _] d k gone. destruct (Nat.eq_dec d c) as [-> | other].
  - destruct gone as [over | (k' & at_k' & differ)]; [left; simpl; rewrite update_same; auto |].
    destruct (stays k' at_k') as [? | ->]; [right; eauto | left; simpl; apply update_same].
  - destruct gone as [over | (k' & at_k' & differ)].
    + left. simpl. now rewrite update_other.
    + right. exists k'. now rewrite chosen_other.
Qed.

Lemma invariant_phase : forall s c p, invariant s -> goes_on s c p -> invariant (with_phase s c p).
Proof.
  intros s c p inv on. pose proof on as [not begun stays fits trying holding].
  assert (known : forall d, phase_of s d <> Idle -> update (phase_of s) c p d <> Idle).
  { intros d ?. destruct (Nat.eq_dec d c) as [-> |]; [now rewrite update_same | now rewrite update_other]. }
  constructor; simpl; try apply inv.
  - intros r sent_r. apply known. now apply (senders_began s inv).
  - intros r k sent_r moves. pose proof (moves_are_chosen s inv r k sent_r moves) as is_only.
    unfold only in *. destruct (Nat.eq_dec (by_ r) c) as [same | other].
    + rewrite same in *. destruct is_only as [over | at_k]; [left; simpl; rewrite update_same; auto |].
      destruct (stays k at_k) as [? | ->]; [auto | left; simpl; apply update_same].
    + rewrite chosen_other by assumption. simpl. now rewrite update_other.
  - intros r sent_r releases. pose proof (releases_come_last s inv r sent_r releases).
    destruct (Nat.eq_dec (by_ r) c) as [same |]; [rewrite same, update_same; apply not; congruence | now rewrite update_other].
  - intros r t ttl_ k sent_r is_take at_r. destruct (Nat.eq_dec (by_ r) c) as [same | other].
    + rewrite same, update_same in at_r. destruct (trying _ _ _ at_r) as [_ [[o' before] | idle]].
      * rewrite <- same in before. eapply (one_ttl s inv); eauto.
      * pose proof (senders_began s inv r sent_r). congruence.
    + rewrite update_other in at_r by assumption. eapply (one_ttl s inv); eauto.
  - intros d t ttl_ k at_d. destruct (Nat.eq_dec d c) as [-> | other].
    + rewrite update_same in at_d. now destruct (trying _ _ _ at_d).
    + rewrite update_other in at_d by assumption. eapply (tries_are_past s inv); eauto.
  - intros d k at_d. destruct (Nat.eq_dec d c) as [-> | other]; [now apply fits |].
    rewrite chosen_other in at_d by assumption. now apply (choices_fit s inv).
  - intros m k key has. destruct (owners_are_known s inv m k key has) as (? & ? & ?). repeat split; auto.
  - intros m k key t ttl_ o has at_o. destruct (Nat.eq_dec (owner key) c) as [same | other].
    + rewrite same, update_same in at_o. destruct (trying _ _ _ at_o) as [_ [[o' before] | idle]].
      * rewrite <- same in before. eapply (keys_of_tries_live s inv); eauto.
      * destruct (owners_are_known s inv m k key has). congruence.
    + rewrite update_other in at_o by assumption. eapply (keys_of_tries_live s inv); eauto.
  - intros v voted. eapply meant_stays; [| | | now apply (votes_are_meant s inv)]; simpl; [lia | |].
    + now apply forgone_goes_on.
    + now apply same_keys_change_well.
  - intros d k until at_d. destruct (Nat.eq_dec d c) as [-> | other].
    + rewrite update_same in at_d. eapply proven_stays; [| | eauto]; simpl; [lia | apply incl_refl].
    + rewrite update_other in at_d by assumption.
      eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | apply incl_refl].
Qed.

Lemma invariant_sent : forall s r, invariant s -> began r = now s -> phase_of s (by_ r) <> Idle ->
  (forall k, what r = Take k \/ what r = Leave k -> only s (by_ r) k) ->
  (forall k, what r = Take k -> In k (order_of y (by_ r))) ->
  (what r = Release -> phase_of s (by_ r) = Over) ->
  (forall t ttl_ k, takes r -> phase_of s (by_ r) = Trying t ttl_ k -> ttl r = ttl_) ->
  invariant (with_sent s r).
Proof.
  intros s r inv at_now begun moves fits releases one. constructor; simpl; try apply inv.
  - intros z [<- | ?]; [lia | now apply (requests_are_past s inv)].
  - intros z [<- | ?]; [assumption | now apply (senders_began s inv)].
  - intros z k [<- | ?] ?; [now apply moves | now apply (moves_are_chosen s inv)].
  - intros z k [<- | ?] ?; [now apply fits | now apply (moves_fit s inv)].
  - intros z [<- | ?] ?; [auto | now apply (releases_come_last s inv)].
  - intros z t ttl_ k [<- | ?] ? ?; [eauto | eapply (one_ttl s inv); eauto].
Qed.

Lemma invariant_time : forall s t, invariant s -> now s <= t -> invariant (with_now s t).
Proof.
  intros s t inv later. constructor; simpl; try apply inv.
  - intros r ?. pose proof (requests_are_past s inv r). intuition lia.
  - intros c u ttl_ k at_c. pose proof (tries_are_past s inv c u ttl_ k at_c). lia.
  - intros m k key u ttl_ o has at_o. destruct (keys_of_tries_live s inv m k key u ttl_ o has at_o) as (set & ? & ?).
    exists set. split; [lia | assumption].
  - intros v voted. eapply meant_stays; [exact later | auto | | now apply (votes_are_meant s inv)].
    now apply same_keys_change_well.
  - intros c k until at_c.
    eapply proven_stays; [exact later | | eapply (holders_are_proven s inv); eauto]; simpl; apply incl_refl.
Qed.

(* A key is removed at its end. *)
Lemma invariant_ends : forall s m k key, invariant s -> keys s m k = Some key -> ends key <= clock m (now s) ->
  invariant (with_keys s m (update (keys s m) k None)).
Proof.
  intros s m k key inv has ended.
  assert (fewer : forall m' k' key', update (keys s) m (update (keys s m) k None) m' k' = Some key' -> keys s m' k' = Some key').
  { intros m' k' key' has'. destruct (Nat.eq_dec m' m) as [-> | other].
    - rewrite update_same in has'. destruct (Nat.eq_dec k' k) as [-> |]; [rewrite update_same in has'; discriminate |].
      now rewrite update_other in has'.
    - now rewrite update_other in has'. }
  constructor; simpl; try apply inv.
  - intros m' k' key' has'. apply fewer in has'. now apply (owners_are_known s inv m' k' key').
  - intros m' i j key1 key2 has1 has2. apply fewer in has1, has2. eapply (one_key_each s inv); eauto.
  - intros m' k' key' t ttl_ o has'. apply fewer in has'. eapply (keys_of_tries_live s inv); eauto.
  - intros compares m' i j key1 key2 a b has1 has2. apply fewer in has1, has2. eapply (numbers_are_one s inv); eauto.
  - intros v voted. eapply meant_stays; [| | | now apply (votes_are_meant s inv)]; simpl; [lia | auto |].
    intros m' k' key' has'. simpl. destruct (Nat.eq_dec m' m) as [-> | other].
    + rewrite update_same. destruct (Nat.eq_dec k' k) as [-> | ?].
      * right; left. congruence.
      * rewrite update_other by assumption. left. exists key'. repeat split; [assumption | lia].
    + rewrite update_other by assumption. left. exists key'. repeat split; [assumption | lia].
Qed.

(* ---- a request comes to a server --------------------------------------------------------------- *)

Lemma order_is_asked : forall s r j, invariant s -> In r (sent s) -> In j (asked_for y r) -> In j (order_of y (by_ r)).
Proof.
  intros s r j inv sent_r asked. unfold asked_for in asked. destruct (what r) eqn:kind; simpl in asked; try contradiction.
  - assumption.
  - destruct asked as [<- | []]. now apply (moves_fit s inv).
Qed.

(* A slot that is deleted does not count. *)
Lemma deleted_is_forgone : forall s m r held taken j key, invariant s -> In r (sent s) ->
  may_arrive y s m r = true -> serve y (clock m (now s)) r (keys s m) = (held, taken) ->
  keys s m j = Some key -> owner key = by_ r -> held j = None -> deletes r j -> taken <> Some j ->
  forgone s (by_ r) j.
Proof.
  intros s m r held taken j key inv sent_r may served has own gone why not.
  destruct why as [releases | [chooses | (k & moves & differ)]].
  - left. now apply (releases_come_last s inv).
  - exfalso. destruct (owners_are_known s inv m j key has) as (_ & came & of_order). rewrite own in came, of_order.
    destruct first_harmless as [keeps | first].
    + unfold serve, take in served. rewrite chooses in served.
      destruct (compares_numbers y && negb (numbers_agree y (by_ r) (keys s m))) eqn:agree.
      { injection served as <- _. congruence. }
      injection served as _ found. unfold first_slot in found. rewrite keeps in found.
      destruct (find (fun k => is_own (by_ r) (keys s m k)) (order_of y (by_ r))) as [k |] eqn:finds.
      * apply find_some in finds as [_ own_k]. destruct (is_own_true _ _ own_k) as (key' & has' & own').
        apply not. rewrite <- found. f_equal. eapply (one_key_each s inv); eauto. congruence.
      * pose proof (find_none _ _ finds j of_order) as none. cbv beta in none. rewrite has in none. simpl in none.
        rewrite own, Nat.eqb_refl in none. discriminate.
    + unfold may_arrive in may. rewrite chooses, first, came in may. discriminate.
  - destruct (moves_are_chosen s inv r k sent_r moves) as [? | at_k]; [now left |].
    right. exists k. auto.
Qed.

Lemma arrival_changes_well : forall s m r held taken, invariant s -> In r (sent s) ->
  may_arrive y s m r = true -> serve y (clock m (now s)) r (keys s m) = (held, taken) ->
  changes_well s (with_seen (with_keys s m held) m (by_ r)).
Proof.
  intros s m r held taken inv sent_r may served m' k key has. simpl.
  destruct (Nat.eq_dec m' m) as [-> | other].
  2: { left. exists key. rewrite update_other by assumption. repeat split; [assumption | lia]. }
  rewrite update_same.
  destruct (serve_becomes _ _ _ _ _ _ k served) as [stays | key' has' own at_ new | free | key' has' own gone why not].
  - left. exists key. rewrite stays. repeat split; [assumption | lia].
  - left. rewrite has in has'. inversion has'; subst. eexists. split; [exact new |]. simpl. split; [auto | lia].
  - congruence.
  - right; right. rewrite has in has'. inversion has'; subst. rewrite own.
    eapply (deleted_is_forgone s m r held taken k); eauto.
Qed.

Lemma invariant_arrival : forall s m r held taken, invariant s -> In r (sent s) ->
  may_arrive y s m r = true -> serve y (clock m (now s)) r (keys s m) = (held, taken) ->
  invariant (with_seen (with_keys s m held) m (by_ r)).
Proof.
  intros s m r held taken inv sent_r may served.
  assert (becomes_ : forall j, becomes y (clock m (now s)) r (keys s m) held taken j)
    by (intros; now apply serve_becomes).
  (* A key that is there now was there before, perhaps with an earlier end, or it is the one that was taken. *)
  assert (from : forall m' k key, update (keys s) m held m' k = Some key ->
    (exists old, keys s m' k = Some old /\ owner old = owner key /\ ends old <= ends key) \/
    (m' = m /\ keys s m k = None /\ key = fresh (clock m (now s)) r /\ In k (asked_for y r) /\ takes r /\
     (compares_numbers y = true -> numbers_agree y (by_ r) (keys s m) = true) /\
     (forall i, i <> k -> is_own (by_ r) (held i) = false))).
  { intros m' k key has. destruct (Nat.eq_dec m' m) as [-> | other].
    2: { left. exists key. rewrite update_other in has by assumption. repeat split; [assumption | lia]. }
    rewrite update_same in has.
    destruct (becomes_ k) as [stays | old has' own at_ new | free new asked agree alone kind at_k | old has' own gone why not].
    - left. exists key. rewrite <- stays. repeat split; [assumption | lia].
    - left. exists old. rewrite has in new. inversion new; subst. simpl. repeat split; [assumption | assumption | lia].
    - right. rewrite has in new. inversion new; subst. repeat split; try assumption.
      destruct kind; [left; assumption | right; eauto].
    - congruence. }
  constructor; simpl; try apply inv.
  - intros m' k key has. destruct (from m' k key has) as [(old & has' & <- & _) | (-> & _ & -> & asked & _)].
    + destruct (owners_are_known s inv m' k old has') as (begun & came & of_order). split; [assumption |].
      split; [| assumption]. destruct (Nat.eq_dec m' m) as [-> |]; [| now rewrite update_other].
      rewrite update_same. destruct (Nat.eq_dec (owner old) (by_ r)) as [-> |]; [apply update_same | now rewrite update_other].
    + simpl. rewrite !update_same. split; [now apply (senders_began s inv) |]. split; [reflexivity |].
      now apply (order_is_asked s).
  - intros m' i j key1 key2 has1 has2 same.
    destruct (from m' i key1 has1) as [(old1 & has1' & own1 & _) | (at_m & _ & new1 & _ & _ & _ & alone)].
    + destruct (from m' j key2 has2) as [(old2 & has2' & own2 & _) | (at_m & _ & new2 & _ & _ & _ & alone)].
      * eapply (one_key_each s inv); eauto. congruence.
      * destruct (Nat.eq_dec i j) as [| differ]; [assumption | exfalso]. specialize (alone i differ).
        subst m'. rewrite update_same in has1. rewrite has1 in alone. simpl in alone. subst key2. simpl in same.
        rewrite same, Nat.eqb_refl in alone. discriminate.
    + destruct (Nat.eq_dec i j) as [| differ]; [assumption | exfalso]. specialize (alone j ltac:(congruence)).
      subst m'. rewrite update_same in has2. rewrite has2 in alone. simpl in alone. subst key1. simpl in same.
      rewrite <- same, Nat.eqb_refl in alone. discriminate.
  - intros m' k key t ttl_ o has at_o.
    destruct (from m' k key has) as [(old & has' & own & longer) | (-> & _ & -> & _ & is_take & _)].
    + rewrite <- own in at_o. destruct (keys_of_tries_live s inv m' k old t ttl_ o has' at_o) as (set & ? & ?).
      exists set. split; [assumption | lia].
    + simpl in *. exists (now s). pose proof (tries_are_past s inv _ _ _ _ at_o).
      pose proof (one_ttl s inv r t ttl_ o sent_r is_take at_o). split; lia.
  - intros compares m' i j key1 key2 a b has1 has2 num1 num2.
    assert (with_new : forall k key c, keys s m k = Some key -> In k (order_of y (owner key)) ->
      (compares_numbers y = true -> numbers_agree y (by_ r) (keys s m) = true) ->
      number_of y (owner key) = Some c -> forall d, number_of y (by_ r) = Some d -> c = d).
    { intros k key c has_k of_order agree num_c d num_d. specialize (agree compares). unfold numbers_agree in agree.
      rewrite num_d, forallb_forall in agree. destruct (fit _ _ of_order) as [range _].
      specialize (agree k ltac:(apply in_seq; lia)). rewrite has_k, num_c in agree. now apply Nat.eqb_eq in agree. }
    destruct (from m' i key1 has1) as [(old1 & has1' & own1 & _) | (at_m & _ & new1 & _ & _ & agree & _)];
      destruct (from m' j key2 has2) as [(old2 & has2' & own2 & _) | (at_m' & _ & new2 & _ & _ & agree' & _)].
    + rewrite <- own1 in num1. rewrite <- own2 in num2. now apply (numbers_are_one s inv compares m' i j old1 old2).
    + subst m' key2. simpl in num2. rewrite <- own1 in num1.
      apply (with_new i old1 a); try assumption. now apply (owners_are_known s inv m i old1).
    + subst m' key1. simpl in num1. rewrite <- own2 in num2. symmetry.
      apply (with_new j old2 b); try assumption. now apply (owners_are_known s inv m j old2).
    + subst key1 key2. simpl in *. congruence.
  - intros v voted. eapply meant_stays; [| | eapply arrival_changes_well; eassumption | now apply (votes_are_meant s inv)];
      simpl; [lia | auto].
Qed.

Lemma arrival_is_meant : forall s n m r held k q, invariant s -> In r (sent s) ->
  reaches (base y) n m = true -> serve y (clock m (now s)) r (keys s m) = (held, Some k) -> claim_of s r k = Some q ->
  meant (with_seen (with_keys s m held) m (by_ r)) {| voter := n; granted := q |}.
Proof.
  intros s n m r held k q inv sent_r at_m served claims.
  destruct (serve_grants _ _ _ _ _ _ served) as (key & has & own & lives & kind).
  assert (has_m : forall k', keys (with_seen (with_keys s m held) m (by_ r)) m k' = held k')
    by (intros; simpl; now rewrite update_same).
  exists m. unfold claim_of in claims. destruct kind as [chooses | [takes_ | extends_]].
  1, 2: assert (is_take : takes r) by (unfold takes; eauto);
    (destruct (phase_of s (by_ r)) as [| t ttl_ o | |] eqn:at_r;
      try (rewrite chooses in claims; discriminate); try (rewrite takes_ in claims; discriminate));
    (assert (claim_is : q = took (by_ r) k t ttl_)
      by (try rewrite chooses in claims; try rewrite takes_ in claims; now inversion claims)); subst q; simpl;
    pose proof (tries_are_past s inv _ _ _ _ at_r); pose proof (one_ttl s inv r _ _ _ sent_r is_take at_r);
    (destruct lives as [[before _] | lives];
     [ rewrite <- own in at_r; destruct (keys_of_tries_live s inv m k key _ _ _ before at_r) as (set & between & lives);
       exists set; (split; [assumption |]); (split; [assumption |]); right; left; exists key; rewrite has_m; auto
     | exists (now s); (split; [assumption |]); (split; [lia |]); right; left; exists key; rewrite has_m;
       repeat split; [assumption | assumption | lia] ]).
  rewrite extends_ in claims. inversion claims; subst; clear claims. simpl.
  exists (now s). split; [assumption |]. split; [pose proof (requests_are_past s inv r sent_r); lia |].
  right; left. exists key. rewrite has_m. destruct lives as [[_ [? | ?]] | lives]; [congruence | congruence |]. auto.
Qed.

Lemma invariant_vote : forall s v, invariant s -> meant s v -> invariant (with_vote s v).
Proof.
  intros s v inv meaning. constructor; simpl; try apply inv.
  - intros w [<- | ?]; [exact meaning | now apply (votes_are_meant s inv)].
  - intros c k until at_c.
    eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | intros ? ?; now right].
Qed.

(* ---- the invariant holds ----------------------------------------------------------------------- *)

Lemma invariant_initial : invariant initial.
Proof. constructor; simpl; try contradiction; try discriminate. Qed.

Lemma holding_is_chosen : forall s c k until, phase_of s c = Holding k until -> chosen s c = Some k.
Proof. intros s c k until at_c. unfold chosen. now rewrite at_c. Qed.

(* A holder moves on with the same slot. *)
Lemma holder_goes_on : forall s c k old until, invariant s -> phase_of s c = Holding k old -> proven s c k until ->
  goes_on s c (Holding k until).
Proof.
  intros s c k old until inv at_c proves. pose proof (holding_is_chosen _ _ _ _ at_c) as is_chosen.
  constructor; unfold chosen in *; simpl; try rewrite update_same.
  - congruence.
  - discriminate.
  - intros k'. rewrite is_chosen. auto.
  - intros k' same. inversion same; subst. apply (choices_fit s inv). unfold chosen. now rewrite at_c.
  - discriminate.
  - intros k' u same. now inversion same; subst.
Qed.

Lemma invariant_begins : forall s c ttl_ s', invariant s -> step y s (Begins c ttl_) = Some s' -> invariant s'.
Proof.
  intros s c ttl_ s' inv happens. simpl in happens.
  destruct (phase_of s c) eqn:at_c; inversion happens; subst.
  assert (on : goes_on s c (Trying (now s) ttl_ None)).
  { constructor; unfold chosen; simpl; try rewrite update_same; rewrite ?at_c; try discriminate.
    intros ? ? ? same. inversion same; subst. split; [lia | auto]. }
  apply invariant_sent; simpl; try discriminate.
  - now apply invariant_phase.
  - reflexivity.
  - rewrite update_same. discriminate.
  - intros k [? | ?]; discriminate.
  - intros t ttl' k _ same. rewrite update_same in same. now inversion same.
Qed.

Lemma invariant_arrives : forall s n m r s', invariant s -> step y s (Arrives n m r) = Some s' -> invariant s'.
Proof.
  intros s n m r s' inv happens. simpl in happens.
  destruct (reaches (base y) n m) eqn:at_m; [| discriminate].
  destruct (in_dec request_dec r (sent s)) as [sent_r |]; [| discriminate].
  destruct (may_arrive y s m r) eqn:may; [| discriminate]. simpl in happens.
  destruct (serve _ _ r (keys s m)) as [held taken] eqn:served. inversion happens; subst; clear happens.
  pose proof (invariant_arrival s m r held taken inv sent_r may served) as inv'.
  destruct taken as [k |]; [| assumption]. destruct (claim_of s r k) as [q |] eqn:claims; [| assumption].
  apply invariant_vote; [assumption | now apply (arrival_is_meant s n m r held k)].
Qed.

Lemma invariant_settles : forall s c k s', invariant s -> step y s (Settles c k) = Some s' -> invariant s'.
Proof.
  intros s c k s' inv happens. simpl in happens.
  destruct (phase_of s c) as [| t ttl_ [|] | |] eqn:at_c; try discriminate.
  destruct (among (order_of y c) k) eqn:of_order; inversion happens; subst. apply among_in in of_order.
  pose proof (tries_are_past s inv _ _ _ _ at_c).
  assert (on : goes_on s c (Trying t ttl_ (Some k))).
  { constructor; unfold chosen; simpl; try rewrite update_same; rewrite ?at_c; try discriminate.
    - intros k' same. inversion same; now subst.
    - intros ? ? ? same. inversion same; subst. eauto. }
  apply invariant_sent; simpl; try discriminate.
  - now apply invariant_phase.
  - reflexivity.
  - rewrite update_same. discriminate.
  - intros k' [same | same]; inversion same; subst. right. unfold chosen. simpl. now rewrite update_same.
  - intros k' same. inversion same; now subst.
  - intros t' ttl' o _ same. rewrite update_same in same. now inversion same.
Qed.

Lemma invariant_wins : forall s c until s', invariant s -> step y s (Wins c until) = Some s' -> invariant s'.
Proof.
  intros s c until s' inv happens. simpl in happens.
  destruct (phase_of s c) as [| t ttl_ [k |] | |] eqn:at_c; try discriminate.
  destruct (majority _ _ _) eqn:won; [| discriminate].
  destruct (until <=? _) eqn:bound; inversion happens; subst; clear happens.
  apply invariant_phase; [assumption |].
  constructor; unfold chosen; simpl; try rewrite update_same; rewrite ?at_c; try discriminate.
  - auto.
  - intros k' same. inversion same; subst. apply (choices_fit s inv). unfold chosen. now rewrite at_c.
  - intros k' u same. inversion same; subst. exists (took c k' t ttl_). repeat split; [| assumption | lia].
    simpl. now apply (tries_are_past s inv c t ttl_ (Some k')).
Qed.

Lemma invariant_step : forall s e s', invariant s -> step y s e = Some s' -> invariant s'.
Proof.
  intros s e s' inv happens.
  destruct e as [span_ | c ttl_ | n m r | m k | m k | c k | c | c until | c ttl_ | c began_ ttl_ until | c ttl_ | c until | c];
    simpl in happens.
  - (* Time_passes *)
    destruct (0 <=? _) eqn:forward; inversion happens; subst. apply invariant_time; [assumption | lia].
  - (* Begins *) exact (invariant_begins s c ttl_ s' inv happens).
  - (* Arrives *) exact (invariant_arrives s n m r s' inv happens).
  - (* Ends *)
    destruct (keys s m k) as [key |] eqn:has; [| discriminate].
    destruct (ends key <=? _) eqn:ended; inversion happens; subst.
    eapply invariant_ends; [assumption | eassumption | lia].
  - (* Loses *)
    rewrite (assumed Keys_are_kept : keeps_data (base y) = true) in happens. discriminate.
  - (* Settles *) exact (invariant_settles s c k s' inv happens).
  - (* Leaves *)
    destruct (chosen s c) as [k |] eqn:at_c; inversion happens; subst.
    apply invariant_sent; simpl; try discriminate; try assumption; try reflexivity.
    + unfold chosen in at_c. destruct (phase_of s c); discriminate.
    + intros k' [same | same]; inversion same; subst. now right.
    + intros t ttl_ k' [same | (? & same)]; discriminate.
  - (* Wins *) exact (invariant_wins s c until s' inv happens).
  - (* Begins_extension *)
    destruct (phase_of s c) eqn:at_c; inversion happens; subst.
    apply invariant_sent; simpl; try discriminate; try assumption; try reflexivity; try congruence.
    intros k' [same | same]; discriminate.
  - (* Extended *)
    destruct (phase_of s c) as [| | k old |] eqn:at_c; try discriminate.
    destruct (majority _ _ _) eqn:won; [| discriminate].
    destruct (began_ <=? now s) eqn:past; [| discriminate]. simpl in happens.
    destruct (client_clock (base y) c (now s) <? old); [| discriminate]. simpl in happens.
    destruct (until <=? _) eqn:bound; inversion happens; subst; clear happens.
    apply invariant_phase; [assumption |]. eapply holder_goes_on; [assumption | exact at_c |].
    destruct (Z.max_spec old until) as [[_ ->] | [_ ->]].
    + exists (prolonged c k began_ ttl_). repeat split; [simpl; lia | assumption | lia].
    + now apply (holders_are_proven s inv).
  - (* Repairs *)
    destruct (phase_of s c) as [| | k old |] eqn:at_c; inversion happens; subst.
    pose proof (holding_is_chosen _ _ _ _ at_c) as is_chosen.
    apply invariant_sent; simpl; try discriminate; try assumption; try reflexivity; try congruence.
    + intros k' [same | same]; inversion same; subst. now right.
    + intros k' same. inversion same; subst. now apply (choices_fit s inv).
  - (* Cuts *)
    destruct (phase_of s c) as [| | k old |] eqn:at_c; try discriminate.
    destruct (until <=? old) eqn:shorter; inversion happens; subst; clear happens.
    apply invariant_phase; [assumption |]. eapply holder_goes_on; [assumption | exact at_c |].
    destruct (holders_are_proven s inv c k old at_c) as (q & ? & ? & ? & ? & ?).
    exists q. repeat split; try assumption. lia.
  - (* Releases *)
    inversion happens; subst. apply invariant_sent; simpl; try discriminate.
    + apply invariant_phase; [assumption |].
      constructor; unfold chosen; simpl; try rewrite update_same; auto; discriminate.
    + reflexivity.
    + rewrite update_same. discriminate.
    + intros k [? | ?]; discriminate.
    + intros _. apply update_same.
    + intros t ttl_ k [? | (? & ?)]; discriminate.
Qed.

Lemma invariant_reachable : forall s, reachable y s -> invariant s.
Proof. induction 1; [apply invariant_initial | eauto using invariant_step]. Qed.

(* ---- exclusion --------------------------------------------------------------------------------- *)

(* Each voter of a client that is inside validity has its slot, now. *)
Lemma voters_have_the_slot : forall s c k until q n,
  invariant s -> phase_of s c = Holding k until -> client_clock (base y) c (now s) < until ->
  of_ q = c -> place q = k -> until <= validity_end y q ->
  existsb (fun v => (voter v =? n)%nat && (steady (base y) (of_ q) n && counts y q (granted v))) (votes s) = true ->
  exists m key, reaches (base y) n m = true /\ keys s m k = Some key /\ owner key = c.
Proof.
  intros s c k until q n inv at_c valid of_c at_k bound voted.
  apply existsb_exists in voted as (v & in_votes & of_n). apply andb_true_iff in of_n as [is_n counted].
  apply andb_true_iff in counted as [covered counted].
  apply Nat.eqb_eq in is_n. unfold counts in counted. rewrite (one_slot : counts_one_slot y = true) in counted.
  destruct (claim_dec (granted v) q) as [same |]; [| discriminate].
  destruct (votes_are_meant s inv v in_votes) as (m & set & at_m & past & meaning).
  rewrite same, of_c, at_k in *. rewrite is_n in at_m.
  destruct meaning as [[over | (k' & at_k' & differ)] | [(key & has & own & _) | (ended & between & lived)]].
  - congruence.
  - rewrite (holding_is_chosen _ _ _ _ at_c) in at_k'. congruence.
  - eauto 6.
  - (* the key cannot have ended: validity would have ended first *)
    exfalso. unfold validity_end in bound. rewrite of_c in bound.
    pose proof (validity_ends_first (drift_ppm (base y) c) (drift_fixed (base y)) (client_ppm (base y)) (server_ppm (base y) m)
      (client_error (base y)) (server_error (base y)) (span q) (since q) set ended (now s)
      (client_clock (base y) c) (server_clock (base y) m)) as first.
    assert (server_clock (base y) m ended - server_clock (base y) m set < span q); [| lia].
    apply first; try lia.
    + apply (assumed Drift_covers c n m); congruence.
    + apply (assumed Server_clocks_run). lia.
    + apply (assumed Client_clocks_run). lia.
Qed.

(* Two holders, of whichever slots, have a server in common that has both their slots. *)
Lemma holders_meet : forall s c d i j, reachable y s -> has_slot y s c i -> has_slot y s d j ->
  exists m key key', keys s m i = Some key /\ owner key = c /\ keys s m j = Some key' /\ owner key' = d.
Proof.
  intros s c d i j reached (until_c & at_c & in_c) (until_d & at_d & in_d).
  pose proof (invariant_reachable s reached) as inv.
  destruct (holders_are_proven s inv c i until_c at_c) as (qc & of_c & at_i & past_c & won_c & bound_c).
  destruct (holders_are_proven s inv d j until_d at_d) as (qd & of_d & at_j & past_d & won_d & bound_d).
  unfold majority in won_c, won_d. rewrite Nat.leb_le in won_c, won_d.
  pose proof (assumed Same_nodes (of_ qd) (of_ qc)) as same. simpl in same.
  unfold voters in won_c, won_d. rewrite same in won_d.
  pose proof (assumed Majorities_win (length (list_of (base y) (of_ qc)))) as wins.
  destruct (selections_meet node _ _ (list_of (base y) (of_ qc)) ltac:(
    eapply Nat.lt_le_trans; [| apply Nat.add_le_mono; [exact won_c | exact won_d]]; simpl in *; lia))
    as (n & _ & voted_c & voted_d).
  destruct (voters_have_the_slot s c i until_c qc n inv at_c in_c of_c at_i bound_c voted_c) as (m & key & at_m & has & own).
  destruct (voters_have_the_slot s d j until_d qd n inv at_d in_d of_d at_j bound_d voted_d) as (m' & key' & at_m' & has' & own').
  pose proof (assumed One_server_per_node n m m' at_m at_m'). subst m'. exists m, key, key'. auto.
Qed.

Lemma one_holder : forall s c d k, reachable y s -> has_slot y s c k -> has_slot y s d k -> c = d.
Proof.
  intros s c d k reached has_c has_d.
  destruct (holders_meet s c d k k reached has_c has_d) as (m & key & key' & at_c & own & at_d & own'). congruence.
Qed.

Lemma one_number : compares_numbers y = true -> forall s c d i j a b, reachable y s -> has_slot y s c i ->
  has_slot y s d j -> number_of y c = Some a -> number_of y d = Some b -> a = b.
Proof.
  intros compares s c d i j a b reached has_c has_d is_a is_b.
  destruct (holders_meet s c d i j reached has_c has_d) as (m & key & key' & at_c & <- & at_d & <-).
  now apply (numbers_are_one s (invariant_reachable s reached) compares m i j key key').
Qed.

Lemma slot_is_in_order : forall s c k, reachable y s -> has_slot y s c k -> In k (order_of y c).
Proof.
  intros s c k reached (until & at_c & _).
  apply (choices_fit s (invariant_reachable s reached)). eapply holding_is_chosen. exact at_c.
Qed.

End Exclusion.

(* Different clients that each hold a slot of 1 to K, and none the same: at most K. *)
Lemma pigeons : forall (f : attempt -> slot -> Prop) (number : nat) (l : list attempt), NoDup l ->
  (forall c, In c l -> exists k, (1 <= k <= number)%nat /\ f c k) -> (forall c d k, f c k -> f d k -> c = d) ->
  (length l <= number)%nat.
Proof.
  intros f number l one each alone.
  assert (placed : exists places, length places = length l /\ NoDup places /\
    forall k, In k places -> (1 <= k <= number)%nat /\ exists c, In c l /\ f c k).
  { induction l as [| c l IH]; [exists []; repeat split; simpl; auto using NoDup_nil; contradiction |].
    inversion one; subst. destruct IH as (places & same & differ & good); [assumption | intros; apply each; now right |].
    destruct (each c (or_introl eq_refl)) as (k & range & has).
    exists (k :: places). repeat split; simpl.
    - congruence.
    - constructor; [| assumption]. intros k_in. destruct (good k k_in) as (_ & d & d_in & has').
      assert (c = d) by eauto. congruence.
    - destruct H as [<- | k_in]; [lia | now apply good].
    - destruct H as [<- | k_in]; [lia | now apply good].
    - destruct H as [<- | k_in]; [eauto | destruct (good k0 k_in) as (_ & d & ? & ?); eauto]. }
  destruct placed as (places & <- & differ & good).
  rewrite <- (seq_length number 1). apply NoDup_incl_length; [assumption |].
  intros k k_in. apply in_seq. destruct (good k k_in). lia.
Qed.

(* ---- the theorems ------------------------------------------------------------------------------ *)

(* Each slot has at most one holder, whatever K the clients were given. *)
Theorem slots_exclude : forall y, assumed_for_locks y -> orders_fit y ->
  follows Counts_one_slot y -> follows First_moves_nothing y ->
  forall s, reachable y s ->
  forall c d k, has_slot y s c k -> has_slot y s d k -> c = d.
Proof. intros y assumed fit one first s reached c d k. now apply one_holder. Qed.

(* All holders at one time were given the same K. *)
Theorem holders_have_one_number : forall y, assumed_for_locks y -> orders_fit y -> (forall r, follows r y) ->
  forall s, reachable y s ->
  forall c d i j a b, has_slot y s c i -> has_slot y s d j ->
  number_of y c = Some a -> number_of y d = Some b -> a = b.
Proof.
  intros y assumed fit rules s reached c d i j a b.
  now apply (one_number y assumed fit (rules Counts_one_slot) (rules First_moves_nothing) (rules Compares_numbers) s).
Qed.

(* While a client that was given K holds a slot, at most K hold one. Also clients that know no slots,
   and hold one of 1 to K as an ordinary lock. *)
Theorem at_most_K_hold : forall y, assumed_for_locks y -> orders_fit y -> (forall r, follows r y) ->
  forall s, reachable y s ->
  forall c k number, has_slot y s c k -> number_of y c = Some number ->
  forall holders, NoDup holders ->
  (forall d, In d holders -> exists j, has_slot y s d j /\ (number_of y d <> None \/ (j <= number)%nat)) ->
  (length holders <= number)%nat.
Proof.
  intros y assumed fit rules s reached c k number has_c is_number holders differ each.
  apply (pigeons (has_slot y s)); [assumption | |].
  - intros d d_in. destruct (each d d_in) as (j & has_d & limit). exists j. split; [| assumption].
    assert (of_order : In j (order_of y d)) by (eapply slot_is_in_order; eauto).
    destruct (fit d j of_order) as [range within]. split; [lia |].
    destruct limit as [slotted | ?]; [| assumption]. destruct (number_of y d) as [other |] eqn:is_other; [| congruence].
    specialize (within other eq_refl).
    assert (other = number); [| lia].
    eapply (holders_have_one_number y assumed fit rules s reached d c); eauto.
  - intros d e j. now apply (slots_exclude y assumed fit (rules Counts_one_slot) (rules First_moves_nothing) s reached).
Qed.
