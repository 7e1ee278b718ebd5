(* SPDX-License-Identifier: BSD-2-Clause

   Shared locks in classic mode: a writer that is inside validity is alone, and a writer that becomes a
   reader leaves no gap for another writer. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic Shared.
Import ListNotations.
Open Scope Z_scope.

(* ---- the list of readers ----------------------------------------------------------------------- *)

Lemma is_of_true : forall c p, is_of c p = true <-> fst p = c.
Proof. intros. unfold is_of. apply Nat.eqb_eq. Qed.

Lemma place_without_other : forall c d l, c <> d -> place_of c (without_ d l) = place_of c l.
Proof.
  intros c d l differ. unfold place_of, without_. f_equal. induction l as [| p l IH]; simpl; [reflexivity |].
  destruct (is_of d p) eqn:of_d; simpl.
  - apply is_of_true in of_d. destruct (is_of c p) eqn:of_c; [apply is_of_true in of_c; congruence | assumption].
  - destruct (is_of c p); [reflexivity | assumption].
Qed.

Lemma place_put_same : forall c e l, place_of c (put c e l) = Some e.
Proof. intros. unfold place_of, put, is_of. simpl. now rewrite Nat.eqb_refl. Qed.

Lemma place_put_other : forall c d e l, c <> d -> place_of c (put d e l) = place_of c l.
Proof.
  intros c d e l differ. rewrite <- (place_without_other c d l) by assumption.
  unfold put, place_of, is_of. simpl. destruct (Nat.eqb_spec d c); [congruence | reflexivity].
Qed.

Lemma place_living : forall clock c l b, place_of c l = Some b -> place_of c (living clock l) = Some b \/ b <= clock.
Proof.
  intros clock c l b. unfold place_of, living. induction l as [| p l IH]; simpl; [discriminate |].
  destruct (is_of c p) eqn:of_c; simpl.
  - intros same. inversion same. destruct (clock <? snd p) eqn:alive; [left | right; lia].
    simpl. now rewrite of_c.
  - intros found. destruct (IH found) as [? | ?]; [left | auto].
    destruct (clock <? snd p); [simpl; now rewrite of_c | assumption].
Qed.

Lemma last_end_is_later : forall c l b, place_of c l = Some b -> exists last, last_end l = Some last /\ b <= last.
Proof.
  intros c l b. unfold place_of. induction l as [| p l IH]; simpl; [discriminate |].
  destruct (is_of c p); simpl.
  - intros same. inversion same. destruct (last_end l); eexists; (split; [reflexivity | lia]).
  - intros found. destruct (IH found) as (last & -> & ?). eexists. split; [reflexivity | lia].
Qed.

(* ---- what a server has for an attempt ----------------------------------------------------------- *)

(* Its token, until `least` at the earliest: nobody else gets anything. *)
Definition exclusive (h : shelf) (c : attempt) (least : time) : Prop :=
  exists e, held h = Some (Token c e) /\ least <= e.

(* A place behind the marker until then, and the marker is there as long: no writer gets the key. *)
Definition listed (h : shelf) (c : attempt) (least : time) : Prop :=
  exists e b, held h = Some (Marker e) /\ least <= e /\ place_of c (places h) = Some b /\ least <= b.

Definition present (h : shelf) (c : attempt) (least : time) : Prop := exclusive h c least \/ listed h c least.

Definition is_release (r : request) : Prop := what r = Delete \/ what r = Share_release.
Definition is_writers (r : request) : Prop := what r = Set_ \/ what r = Extend.

Section Exclusion.
Variable y : system.
Hypothesis assumed : assumed_for_locks y.
Hypothesis rules : forall r, obeys y r = true.

(* A reader joined or extended: those that are listed stay so until their ends. *)
Lemma listed_stays : forall clock c d e b mine l least,
  least <= e -> place_of c l = Some b -> least <= b -> (c = d -> b <= mine) ->
  let l' := living clock (put d mine l) in
  listed {| held := Some (Marker (key_end y e mine l')); places := l' |} c least \/ least <= clock.
Proof.
  intros clock c d e b mine l least key_lives has lives longer l'.
  assert (has' : exists b', place_of c (put d mine l) = Some b' /\ least <= b').
  { destruct (Nat.eq_dec c d) as [-> | differ].
    - exists mine. rewrite place_put_same. split; [reflexivity |]. specialize (longer eq_refl). lia.
    - exists b. rewrite place_put_other by assumption. auto. }
  destruct has' as (b' & has' & lives').
  destruct (place_living clock c _ b' has') as [still | ended]; [left | right; lia].
  unfold listed. simpl. unfold key_end. rewrite (rules Key_outlives_readers : key_outlives_readers y = true).
  destruct (last_end_is_later c l' b' still) as (last & -> & ?).
  exists (Z.max e last), b'. repeat split; [lia | assumption | assumption].
Qed.

(* Only its own release, or its end, takes from an attempt what a server has for it. *)
(* An attempt whose token the key holds keeps it, or becomes a reader. *)
Lemma serve_keeps_token : forall clock r h h' granted c least, serve y clock r h = (h', granted) ->
  exclusive h c least -> present h' c least \/ least <= clock \/ (by_ r = c /\ is_release r).
Proof.
  intros clock r h h' granted c least served (e & at_h & lives). unfold is_release.
  unfold serve, share, share_extend, share_release in served. rewrite at_h in served.
  destruct (what r) eqn:kind.
  - inversion served; subst. left; left. exists e. auto.
  - destruct (Nat.eqb_spec c (by_ r)) as [same |]; inversion served; subst; left; left; simpl.
    + eexists. split; [reflexivity | lia].
    + exists e. auto.
  - destruct (Nat.eqb_spec c (by_ r)) as [same |]; inversion served; subst; [auto |]. left; left. exists e. auto.
  - rewrite (rules Reader_respects_writer : reader_respects_writer y = true) in served.
    inversion served; subst. left; left. exists e. auto.
  - rewrite (rules Downgrade_compares : downgrade_compares y = true) in served. simpl in served.
    destruct (Nat.eqb_spec c (by_ r)) as [same |]; inversion served; subst; clear served.
    + left; right. unfold listed, place_of, is_of. simpl. rewrite Nat.eqb_refl. simpl.
      eexists. eexists. split; [reflexivity |]. split; [| split; [reflexivity |]]; lia.
    + left; left. exists e. auto.
  - destruct (Nat.eqb_spec c (by_ r)) as [same |]; inversion served; subst; [auto |]. left; left. exists e. auto.
Qed.

Lemma serve_keeps : forall clock r h h' granted c least, serve y clock r h = (h', granted) ->
  present h c least -> present h' c least \/ least <= clock \/ (by_ r = c /\ is_release r).
Proof.
  intros clock r h h' granted c least served has. unfold is_release.
  destruct has as [token | (e & b & at_h & key_lives & has & lives)].
  - exact (serve_keeps_token clock r h h' granted c least served token).
  - (* the key holds the marker, and the attempt has a place *)
    assert (unchanged : h' = h -> present h' c least) by (intros ->; right; exists e, b; auto).
    unfold serve in served. destruct (what r) eqn:kind; [rewrite at_h in served .. | | |].
    + rewrite (rules Writer_respects_marker : writer_respects_marker y = true) in served. inversion served. auto.
    + inversion served. auto.
    + inversion served. auto.
    + unfold share in served. rewrite at_h in served. destruct (place_of (by_ r) (places h)) as [before |] eqn:mine.
      * inversion served; subst. destruct (listed_stays clock c (by_ r) e b (Z.max before (clock + ttl r)) (places h) least)
          as [? | ?]; auto.
        -- intros ->. rewrite has in mine. inversion mine. lia.
        -- left; right. assumption.
      * destruct (lists_all e (places h)); [| inversion served; auto].
        inversion served; subst. destruct (listed_stays clock c (by_ r) e b (clock + ttl r) (places h) least) as [? | ?]; auto.
        -- intros ->. congruence.
        -- left; right. assumption.
    + unfold share_extend in served. rewrite at_h in served.
      destruct (place_of (by_ r) (places h)) as [before |] eqn:mine; [| inversion served; auto].
      destruct (clock <? before); [| inversion served; auto].
      inversion served; subst. destruct (listed_stays clock c (by_ r) e b (Z.max before (clock + ttl r)) (places h) least)
        as [? | ?]; auto.
      * intros ->. rewrite has in mine. inversion mine. lia.
      * left; right. assumption.
    + (* others leave *)
      destruct (Nat.eq_dec (by_ r) c) as [| differ]; [auto |]. unfold share_release in served. rewrite at_h in served.
      rewrite (rules Leaver_spares_others : leaver_spares_others y = true) in served. simpl in served.
      assert (rest : (let l := living clock (places h) in
          match place_of (by_ r) l with
          | None => {| held := Some (Marker e); places := l |}
          | Some _ =>
              {| held := match last_end (without_ (by_ r) l) with Some last => Some (Marker last) | None => None end;
                 places := without_ (by_ r) l |}
          end) = h' -> present h' c least \/ least <= clock).
      { cbv zeta. intros is_h'. destruct (place_living clock c _ b has) as [still | ended]; [left; right | right; lia].
        destruct (place_of (by_ r) (living clock (places h))); subst h'.
        - assert (left_ : place_of c (without_ (by_ r) (living clock (places h))) = Some b)
            by (now rewrite place_without_other by congruence).
          destruct (last_end_is_later c _ b left_) as (last & is_last & ?).
          exists last, b. simpl. rewrite is_last. repeat split; [lia | assumption | assumption].
        - exists e, b. simpl. auto. }
      destruct (places h) as [| p [| q l]] eqn:at_places.
      * unfold place_of in has. discriminate.
      * destruct (place_of (by_ r) [p]) eqn:own; injection served as is_h' _; [| destruct (rest is_h'); auto].
        exfalso. unfold place_of, find in own, has.
        destruct (is_of (by_ r) p) eqn:of_r; [| discriminate]. destruct (is_of c p) eqn:of_c; [| discriminate].
        apply is_of_true in of_r, of_c. congruence.
      * injection served as is_h' _. destruct (rest is_h'); auto.
Qed.

(* And nothing but that, or its own downgrade, ends that it is alone. *)
Lemma serve_keeps_exclusive : forall clock r h h' granted c least, serve y clock r h = (h', granted) ->
  exclusive h c least -> exclusive h' c least \/ (by_ r = c /\ ~ is_writers r).
Proof.
  intros clock r h h' granted c least served (e & at_h & lives). unfold is_writers.
  assert (unchanged : h' = h -> exclusive h' c least) by (intros ->; exists e; auto).
  destruct (Nat.eq_dec (by_ r) c) as [same | differ].
  - destruct (what r) eqn:kind; try (right; split; [assumption | intros [? | ?]; discriminate]); left;
      unfold serve in served; rewrite kind, at_h in served.
    + inversion served. auto.
    + rewrite same, Nat.eqb_refl in served. inversion served; subst. eexists. simpl. split; [reflexivity | lia].
  - left. assert (not : (c =? by_ r)%nat = false) by (apply Nat.eqb_neq; congruence).
    unfold serve, share, share_extend, share_release in served. rewrite at_h in served.
    rewrite (rules Reader_respects_writer : reader_respects_writer y = true),
      (rules Downgrade_compares : downgrade_compares y = true), not in served. simpl in served.
    destruct (what r); inversion served; auto.
Qed.

(* What a server grants it has, for the TTL from now on; a writer has it alone. *)
Lemma serve_grants : forall clock r h h', serve y clock r h = (h', true) ->
  (present h' (by_ r) (clock + ttl r) \/ clock + ttl r <= clock) /\
  (is_writers r -> exclusive h' (by_ r) (clock + ttl r)) /\ ~ is_release r.
Proof.
  intros clock r h h' served. unfold is_writers, is_release, serve in *.
  assert (joined : forall e mine, clock + ttl r <= mine ->
    let l := living clock (put (by_ r) mine (places h)) in
    h' = {| held := Some (Marker (key_end y e mine l)); places := l |} ->
    present h' (by_ r) (clock + ttl r) \/ clock + ttl r <= clock).
  { intros e mine long l ->. destruct (place_living clock (by_ r) _ mine (place_put_same (by_ r) mine (places h)))
      as [still | ended]; [left; right | right; lia].
    destruct (last_end_is_later _ _ _ still) as (last & is_last & ?).
    unfold listed, key_end. simpl. rewrite (rules Key_outlives_readers : key_outlives_readers y = true).
    fold l in still, is_last. rewrite is_last. exists (Z.max e last), mine. repeat split; try assumption; lia. }
  destruct (what r) eqn:kind.
  - assert (is : h' = {| held := Some (Token (by_ r) (clock + ttl r)); places := places h |}).
    { destruct (held h) as [[o e | e] |]; [discriminate | | now inversion served].
      rewrite (rules Writer_respects_marker : writer_respects_marker y = true) in served. discriminate. }
    assert (alone : exclusive h' (by_ r) (clock + ttl r)) by (subst h'; eexists; simpl; split; [reflexivity | lia]).
    split; [left; left; assumption |]. split; [auto | intros [? | ?]; discriminate].
  - destruct (held h) as [[o e | e] |]; try discriminate. destruct (o =? by_ r)%nat; inversion served; subst.
    assert (alone : exclusive {| held := Some (Token (by_ r) (Z.max e (clock + ttl r))); places := places h |}
      (by_ r) (clock + ttl r)) by (eexists; simpl; split; [reflexivity | lia]).
    split; [left; left; assumption |]. split; [auto | intros [? | ?]; discriminate].
  - destruct (held h) as [[o e | e] |]; discriminate.
  - split; [| split; [intros [? | ?]; discriminate | intros [? | ?]; discriminate]].
    unfold share in served. destruct (held h) as [[o e | e] |].
    + rewrite (rules Reader_respects_writer : reader_respects_writer y = true) in served. discriminate.
    + destruct (place_of (by_ r) (places h)) as [before |].
      * injection served as is. eapply joined; [| symmetry; exact is]. lia.
      * destruct (lists_all e (places h)); [| discriminate]. injection served as is. eapply joined; [| symmetry; exact is]. lia.
    + inversion served. left; right. unfold listed, place_of, is_of. simpl. rewrite Nat.eqb_refl. simpl.
      eexists. eexists. split; [reflexivity |]. split; [| split; [reflexivity |]]; lia.
  - split; [| split; [intros [? | ?]; discriminate | intros [? | ?]; discriminate]].
    unfold share_extend in served. destruct (held h) as [[o e | e] |]; [| | discriminate].
    + rewrite (rules Downgrade_compares : downgrade_compares y = true) in served. simpl in served.
      destruct (o =? by_ r)%nat; inversion served. left; right. unfold listed, place_of, is_of. simpl.
      rewrite Nat.eqb_refl. simpl. eexists. eexists. split; [reflexivity |]. split; [| split; [reflexivity |]]; lia.
    + destruct (place_of (by_ r) (places h)) as [before |].
      * destruct (clock <? before); [| discriminate]. injection served as is. eapply joined; [| symmetry; exact is]. lia.
      * rewrite (rules Extend_needs_place : extend_needs_place y = true) in served. discriminate.
  - discriminate.
Qed.

(* ---- the invariant ----------------------------------------------------------------------------- *)

Notation clock m t := (server_clock (base y) m t).

(* It has only ever asked as a writer: for an attempt that is not over, it has not been downgraded. *)
Definition only_writes (s : state) (c : attempt) : bool :=
  match phase_of s c with
  | Over => false
  | Holding m _ => negb (reads m)
  | _ => negb (reads (begins_as y c))
  end.

(* Since the moment `set` the server has something for the attempt until `least`, or that has come. *)
Definition kept (has : shelf -> attempt -> time -> Prop) (s : state) (m : server) (c : attempt) (set least : time) : Prop :=
  has (shelf_of s m) c least \/ exists ended, set <= ended <= now s /\ least <= clock m ended.

(* What a vote means, for as long as the attempt is not over. *)
Definition meant (s : state) (v : vote) : Prop :=
  let r := answered v in
  exists m set, reaches (base y) (voter v) m = true /\ began r <= set <= now s /\
    (phase_of s (by_ r) = Over \/
     (kept present s m (by_ r) set (clock m set + ttl r) /\
      (only_writes s (by_ r) = true -> kept exclusive s m (by_ r) set (clock m set + ttl r)))).

(* Validity rests on a majority of votes for one round. *)
Definition proven (s : state) (c : attempt) (until : time) : Prop :=
  exists r, by_ r = c /\ began r <= now s /\ majority y s r = true /\ until <= validity_end y r.

Record invariant (s : state) : Prop := {
  requests_are_past : forall r, In r (sent s) -> began r <= now s;
  senders_began : forall r, In r (sent s) -> phase_of s (by_ r) <> Idle;
  releases_come_last : forall r, In r (sent s) -> is_release r -> phase_of s (by_ r) = Over;
  writers_ask_as_such : forall r, In r (sent s) -> only_writes s (by_ r) = true -> is_writers r;
  attempts_are_past : forall c t ttl, phase_of s c = Trying t ttl -> t <= now s;
  votes_are_meant : forall v, In v (votes s) -> meant s v;
  holders_are_proven : forall c m until, phase_of s c = Holding m until -> proven s c until;
}.

(* ---- nothing that is known of votes is lost ---------------------------------------------------- *)

Lemma proven_stays : forall s s' c until,
  now s <= now s' -> incl (votes s) (votes s') -> proven s c until -> proven s' c until.
Proof.
  intros s s' c until later more (r & by_c & past & won & bound).
  exists r. repeat split; [assumption | lia | | assumption].
  unfold majority in *. rewrite Nat.leb_le in *. etransitivity; [apply won |].
  unfold voters. clear won. induction (list_of (base y) (by_ r)) as [| n l IH]; simpl; [lia |].
  destruct (existsb _ (votes s)) eqn:voted.
  - assert (still : existsb (fun v => (voter v =? n)%nat &&
      (steady (base y) (by_ r) n && if request_dec (answered v) r then true else false)) (votes s') = true).
    { apply existsb_exists. apply existsb_exists in voted as (v & ? & ?). exists v. auto. }
    rewrite still. simpl. lia.
  - destruct (existsb _ (votes s')); simpl; lia.
Qed.

(* The only reasons for which a server takes something from an attempt. *)
Definition changes_well (s s' : state) : Prop := forall m c least,
  (present (shelf_of s m) c least ->
   present (shelf_of s' m) c least \/ least <= clock m (now s) \/ phase_of s' c = Over) /\
  (only_writes s' c = true -> exclusive (shelf_of s m) c least ->
   exclusive (shelf_of s' m) c least \/ least <= clock m (now s) \/ phase_of s' c = Over).

Lemma meant_stays : forall s s' v, now s <= now s' ->
  (forall c, phase_of s c = Over -> phase_of s' c = Over) ->
  (forall c, only_writes s' c = true -> only_writes s c = true) ->
  changes_well s s' -> meant s v -> meant s' v.
Proof.
  intros s s' v later over writes well (m & set & at_m & past & what_for).
  exists m, set. split; [assumption |]. split; [lia |].
  destruct what_for as [? | [there alone]]; [left; auto |].
  destruct (well m (by_ (answered v)) (clock m set + ttl (answered v))) as [well_there well_alone].
  assert (now_ended : clock m set + ttl (answered v) <= clock m (now s) ->
    exists ended, set <= ended <= now s' /\ clock m set + ttl (answered v) <= clock m ended)
    by (intros; exists (now s); split; lia).
  destruct there as [has | (ended & ? & ?)].
  - destruct (well_there has) as [has' | [ended | gone]]; [right | right | auto].
    + split; [now left |]. intros only. destruct (alone (writes _ only)) as [has_alone | (ended & ? & ?)].
      * destruct (well_alone only has_alone) as [? | [? | gone]]; [now left | right; auto |].
        unfold only_writes in only. rewrite gone in only. discriminate.
      * right. exists ended. split; [lia | assumption].
    + split; [right; auto | intros _; right; auto].
  - right. split; [| intros _]; right; exists ended; (split; [lia | assumption]).
Qed.

Lemma same_shelves_change_well : forall s s', shelf_of s' = shelf_of s -> changes_well s s'.
Proof. intros s s' same m c least. rewrite same. auto. Qed.

(* How a phase may change, as far as keys and votes go. *)
Record goes_on (s : state) (c : attempt) (p : phase) : Prop := {
  over_stays : phase_of s c = Over -> p = Over;
  has_begun : p <> Idle;
  never_writes_again : only_writes (with_phase s c p) c = true -> only_writes s c = true;
  try_is_past : forall t ttl, p = Trying t ttl -> t <= now s;
  win_is_proven : forall m until, p = Holding m until -> proven s c until;
}.

Lemma only_writes_other : forall s c p d, d <> c -> only_writes (with_phase s c p) d = only_writes s d.
Proof. intros. unfold only_writes. simpl. now rewrite update_other. Qed.

Lemma invariant_phase : forall s c p, invariant s -> goes_on s c p -> invariant (with_phase s c p).
Proof.
  intros s c p inv [over begun writes trying holding].
  assert (over_all : forall d, phase_of s d = Over -> update (phase_of s) c p d = Over).
  { intros d is_over. destruct (Nat.eq_dec d c) as [-> |]; [rewrite update_same; auto | now rewrite update_other]. }
  assert (writes_all : forall d, only_writes (with_phase s c p) d = true -> only_writes s d = true).
  { intros d only. destruct (Nat.eq_dec d c) as [-> |]; [auto | now rewrite only_writes_other in only]. }
  constructor; simpl; try apply inv.
  - intros r sent_r. destruct (Nat.eq_dec (by_ r) c) as [-> |]; [now rewrite update_same |].
    rewrite update_other by assumption. now apply (senders_began s inv).
  - intros r sent_r releases. apply over_all. now apply (releases_come_last s inv).
  - intros r sent_r only. apply (writers_ask_as_such s inv); auto.
  - intros d t ttl_ at_d. destruct (Nat.eq_dec d c) as [-> |].
    + rewrite update_same in at_d. eauto.
    + rewrite update_other in at_d by assumption. eapply (attempts_are_past s inv); eauto.
  - intros v voted. eapply meant_stays; [| exact over_all | exact writes_all | | now apply (votes_are_meant s inv)];
      [simpl; lia | now apply same_shelves_change_well].
  - intros d m until at_d. destruct (Nat.eq_dec d c) as [-> |].
    + rewrite update_same in at_d. eapply proven_stays; [| | eauto]; simpl; [lia | apply incl_refl].
    + rewrite update_other in at_d by assumption.
      eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | apply incl_refl].
Qed.

Lemma invariant_sent : forall s r, invariant s -> began r = now s -> phase_of s (by_ r) <> Idle ->
  (is_release r -> phase_of s (by_ r) = Over) -> (only_writes s (by_ r) = true -> is_writers r) ->
  invariant (with_sent s r).
Proof.
  intros s r inv at_now begun releases writes. constructor; simpl; try apply inv.
  - intros z [<- | ?]; [lia | now apply (requests_are_past s inv)].
  - intros z [<- | ?]; [assumption | now apply (senders_began s inv)].
  - intros z [<- | ?] ?; [auto | now apply (releases_come_last s inv)].
  - intros z [<- | ?]; [assumption | now apply (writers_ask_as_such s inv)].
Qed.

Lemma invariant_shelf : forall s m h, invariant s -> changes_well s (with_shelf s m h) -> invariant (with_shelf s m h).
Proof.
  intros s m h inv well. constructor; simpl; try apply inv.
  intros v voted. eapply meant_stays; [| | | exact well | now apply (votes_are_meant s inv)]; simpl; [lia | auto | auto].
Qed.

Lemma invariant_vote : forall s v, invariant s -> meant s v -> invariant (with_vote s v).
Proof.
  intros s v inv meaning. constructor; simpl; try apply inv.
  - intros w [<- | ?]; [exact meaning | now apply (votes_are_meant s inv)].
  - intros c m until at_c.
    eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | intros ? ?; now right].
Qed.

Lemma invariant_time : forall s t, invariant s -> now s <= t -> invariant (with_now s t).
Proof.
  intros s t inv later. constructor; simpl; try apply inv.
  - intros r ?. pose proof (requests_are_past s inv r). intuition lia.
  - intros c u ttl_ at_c. pose proof (attempts_are_past s inv c u ttl_ at_c). lia.
  - intros v voted. eapply meant_stays; [exact later | auto | auto | | now apply (votes_are_meant s inv)].
    now apply same_shelves_change_well.
  - intros c m until at_c.
    eapply proven_stays; [exact later | | eapply (holders_are_proven s inv); eauto]; simpl; apply incl_refl.
Qed.

(* One server changes, and for each attempt it does so for a reason. *)
Lemma shelf_changes_well : forall s m h,
  (forall c least, present (shelf_of s m) c least -> present h c least \/ least <= clock m (now s) \/ phase_of s c = Over) ->
  (forall c least, only_writes s c = true -> exclusive (shelf_of s m) c least ->
    exclusive h c least \/ least <= clock m (now s) \/ phase_of s c = Over) ->
  changes_well s (with_shelf s m h).
Proof.
  intros s m h there alone m' c least. simpl. destruct (Nat.eq_dec m' m) as [-> | other].
  - rewrite update_same. auto.
  - rewrite update_other by assumption. auto.
Qed.

Lemma arrival_changes_well : forall s m r h granted, invariant s -> In r (sent s) ->
  serve y (clock m (now s)) r (shelf_of s m) = (h, granted) -> changes_well s (with_shelf s m h).
Proof.
  intros s m r h granted inv sent_r served. apply shelf_changes_well.
  - intros c least has. destruct (serve_keeps _ _ _ _ _ _ _ served has) as [? | [? | [<- releases]]]; auto.
    right; right. now apply (releases_come_last s inv).
  - intros c least only has. destruct (serve_keeps_exclusive _ _ _ _ _ _ _ served has) as [? | [<- not]]; [auto |].
    exfalso. apply not. now apply (writers_ask_as_such s inv).
Qed.

Lemma arrival_is_meant : forall s n m r h, invariant s -> In r (sent s) -> reaches (base y) n m = true ->
  serve y (clock m (now s)) r (shelf_of s m) = (h, true) ->
  meant (with_shelf s m h) {| voter := n; answered := r |}.
Proof.
  intros s n m r h inv sent_r at_m served. destruct (serve_grants _ _ _ _ served) as (there & alone & _).
  exists m, (now s). split; [assumption |]. simpl.
  split; [pose proof (requests_are_past s inv r sent_r); lia |].
  right. unfold kept. simpl. rewrite update_same. split.
  - destruct there as [? | ended]; [auto |]. right. exists (now s). split; [lia | assumption].
  - intros only. left. apply alone. now apply (writers_ask_as_such s inv).
Qed.

(* What a server has until a later moment than that of its end stays. *)
Lemma ending_changes_well : forall s m, invariant s ->
  (forall o e, held (shelf_of s m) = Some (Token o e) -> e <= clock m (now s)) ->
  (forall e, held (shelf_of s m) = Some (Marker e) -> e <= clock m (now s)) ->
  forall h, changes_well s (with_shelf s m h).
Proof.
  intros s m inv token_ended marker_ended h. apply shelf_changes_well.
  - intros c least [(e & has & lives) | (e & b & has & lives & _)].
    + specialize (token_ended _ _ has). right; left. lia.
    + specialize (marker_ended _ has). right; left. lia.
  - intros c least _ (e & has & lives). specialize (token_ended _ _ has). right; left. lia.
Qed.

Lemma place_ends_well : forall s m c e, invariant s -> place_of c (places (shelf_of s m)) = Some e ->
  e <= clock m (now s) ->
  changes_well s (with_shelf s m {| held := held (shelf_of s m); places := without_ c (places (shelf_of s m)) |}).
Proof.
  intros s m c e inv has ended. apply shelf_changes_well.
  - intros d least [(e' & at_h & lives) | (e' & b & at_h & key_lives & has_d & lives)].
    + left; left. exists e'. auto.
    + destruct (Nat.eq_dec d c) as [-> | differ].
      * right; left. rewrite has in has_d. inversion has_d. lia.
      * left; right. exists e', b. simpl. rewrite place_without_other by assumption. auto.
  - intros d least _ (e' & at_h & lives). left. exists e'. auto.
Qed.

(* ---- the invariant holds ----------------------------------------------------------------------- *)

Lemma invariant_initial : invariant initial.
Proof. constructor; simpl; try contradiction; discriminate. Qed.

Lemma holder_goes_on : forall s c m old m' until, invariant s -> phase_of s c = Holding m old ->
  (m' = m \/ m' = Reads) -> proven s c until -> goes_on s c (Holding m' until).
Proof.
  intros s c m old m' until inv at_c reads_now proves.
  constructor; unfold only_writes; simpl; rewrite ?update_same, ?at_c; try discriminate.
  - destruct reads_now as [-> | ->]; [auto | discriminate].
  - intros m0 u same. now inversion same; subst.
Qed.

Lemma invariant_begins : forall s c ttl_ s', invariant s -> step y s (Begins c ttl_) = Some s' -> invariant s'.
Proof.
  intros s c ttl_ s' inv happens. simpl in happens.
  destruct (phase_of s c) eqn:at_c; inversion happens; subst.
  assert (on : goes_on s c (Trying (now s) ttl_)).
  { constructor; unfold only_writes; simpl; rewrite ?update_same, ?at_c; try discriminate; [auto |].
    intros t ttl' same. inversion same. lia. }
  apply invariant_sent; simpl.
  - now apply invariant_phase.
  - reflexivity.
  - rewrite update_same. discriminate.
  - unfold is_release, first_of. simpl. destruct (reads (begins_as y c)); intros [? | ?]; discriminate.
  - unfold only_writes, is_writers, first_of. simpl. rewrite update_same.
    destruct (reads (begins_as y c)); [discriminate | auto].
Qed.

Lemma invariant_arrives : forall s n m r s', invariant s -> step y s (Arrives n m r) = Some s' -> invariant s'.
Proof.
  intros s n m r s' inv happens. simpl in happens.
  destruct (reaches (base y) n m) eqn:at_m; [| discriminate].
  destruct (in_dec request_dec r (sent s)) as [sent_r |]; [| discriminate]. simpl in happens.
  destruct (serve _ _ r (shelf_of s m)) as [h granted] eqn:served. inversion happens; subst; clear happens.
  pose proof (invariant_shelf s m h inv (arrival_changes_well s m r h granted inv sent_r served)) as inv'.
  destruct granted; [| assumption]. apply invariant_vote; [assumption | now apply arrival_is_meant].
Qed.

Lemma invariant_wins : forall s c until s', invariant s -> step y s (Wins c until) = Some s' -> invariant s'.
Proof.
  intros s c until s' inv happens. simpl in happens.
  destruct (phase_of s c) as [| t ttl_ | |] eqn:at_c; try discriminate.
  destruct (majority _ _ _) eqn:won; [| discriminate].
  destruct (until <=? _) eqn:bound; inversion happens; subst; clear happens.
  apply invariant_phase; [assumption |].
  constructor; unfold only_writes; simpl; rewrite ?update_same, ?at_c; try discriminate; [auto |].
  intros m u same. inversion same; subst. exists (ask (first_of y c) c t ttl_).
  repeat split; [| assumption | lia]. now apply (attempts_are_past s inv c t ttl_).
Qed.

Lemma invariant_extended : forall s c began_ ttl_ until s', invariant s -> step y s (Extended c began_ ttl_ until) = Some s' -> invariant s'.
Proof.
  intros s c began_ ttl_ until s' inv happens. simpl in happens.
  destruct (phase_of s c) as [| | m old |] eqn:at_c; try discriminate.
  destruct (extended y s c m began_ ttl_) eqn:won; [| discriminate].
  destruct (began_ <=? now s) eqn:past; [| discriminate]. simpl in happens.
  destruct (client_clock (base y) c (now s) <? old); [| discriminate]. simpl in happens.
  destruct (until <=? _) eqn:bound; inversion happens; subst; clear happens.
  apply invariant_phase; [assumption |]. eapply holder_goes_on; [assumption | exact at_c | auto |].
  destruct (Z.max_spec old until) as [[_ ->] | [_ ->]]; [| now apply (holders_are_proven s inv c m)].
  unfold extended in won. apply orb_true_iff in won as [won | won].
  - exists (ask Extend c began_ ttl_). repeat split; [simpl; lia | assumption | lia].
  - apply andb_true_iff in won as [_ won].
    exists (ask Share_extend c began_ ttl_). repeat split; [simpl; lia | assumption | exact (proj1 (Z.leb_le _ _) bound)].
Qed.

Lemma invariant_downgrades : forall s c ttl_ s', invariant s -> step y s (Downgrades c ttl_) = Some s' -> invariant s'.
Proof.
  intros s c ttl_ s' inv happens. simpl in happens.
  destruct (phase_of s c) as [| | [|] old |] eqn:at_c; try discriminate.
  rewrite (rules Downgrade_is_final : downgrade_is_final y = true) in happens. inversion happens; subst.
  apply invariant_sent; simpl.
  - apply invariant_phase; [assumption |]. eapply holder_goes_on; [assumption | exact at_c | auto |].
    now apply (holders_are_proven s inv c Writes).
  - reflexivity.
  - rewrite update_same. discriminate.
  - unfold is_release. simpl. intros [? | ?]; discriminate.
  - unfold only_writes. simpl. rewrite update_same. discriminate.
Qed.

Lemma invariant_step : forall s e s', invariant s -> step y s e = Some s' -> invariant s'.
Proof.
  intros s e s' inv happens.
  destruct e as [span | c ttl_ | n m r | m | m c | m | c until | c ttl_ | c began_ ttl_ until | c ttl_ | c ttl_ | c until | c];
    simpl in happens.
  - (* Time_passes *)
    destruct (0 <=? _) eqn:forward; inversion happens; subst. apply invariant_time; [assumption | lia].
  - (* Begins *) exact (invariant_begins s c ttl_ s' inv happens).
  - (* Arrives *) exact (invariant_arrives s n m r s' inv happens).
  - (* Ends *)
    destruct (held (shelf_of s m)) as [[o e | e] |] eqn:has; [| | discriminate];
      (destruct (e <=? _) eqn:ended; inversion happens; subst);
      (apply invariant_shelf; [assumption |]); (apply ending_changes_well; [assumption | |]);
      rewrite has; intros; try discriminate; match goal with h : Some _ = Some _ |- _ => inversion h end; lia.
  - (* Place_ends *)
    destruct (place_of c (places (shelf_of s m))) as [e |] eqn:has; [| discriminate].
    destruct (e <=? _) eqn:ended; inversion happens; subst.
    apply invariant_shelf; [assumption |]. eapply place_ends_well; [assumption | eassumption | lia].
  - (* Loses *)
    rewrite (assumed Keys_are_kept : keeps_data (base y) = true) in happens. discriminate.
  - (* Wins *) exact (invariant_wins s c until s' inv happens).
  - (* Begins_extension *)
    destruct (phase_of s c) as [| | m old |] eqn:at_c; inversion happens; subst.
    apply invariant_sent; simpl; try assumption; try reflexivity; try congruence.
    + unfold is_release. simpl. destruct (reads m); intros [? | ?]; discriminate.
    + unfold only_writes, is_writers. simpl. rewrite at_c. destruct (reads m); [discriminate | auto].
  - (* Extended *) exact (invariant_extended s c began_ ttl_ until s' inv happens).
  - (* Repairs *)
    destruct (phase_of s c) as [| | m old |] eqn:at_c; inversion happens; subst.
    apply invariant_sent; simpl; try assumption; try reflexivity; try congruence.
    + unfold is_release. simpl. destruct (reads m); intros [? | ?]; discriminate.
    + unfold only_writes, is_writers. simpl. rewrite at_c. destruct (reads m); [discriminate | auto].
  - (* Downgrades *) exact (invariant_downgrades s c ttl_ s' inv happens).
  - (* Cuts *)
    destruct (phase_of s c) as [| | m old |] eqn:at_c; try discriminate.
    destruct (until <=? old) eqn:shorter; inversion happens; subst; clear happens.
    apply invariant_phase; [assumption |]. eapply holder_goes_on; [assumption | exact at_c | auto |].
    destruct (holders_are_proven s inv c m old at_c) as (r & ? & ? & ? & ?).
    exists r. repeat split; try assumption. lia.
  - (* Releases *)
    inversion happens; subst.
    assert (over : invariant (with_phase s c Over)).
    { apply invariant_phase; [assumption |].
      constructor; unfold only_writes; simpl; rewrite ?update_same; try discriminate; auto. }
    apply invariant_sent; [apply invariant_sent; [assumption | ..] | ..]; simpl; try reflexivity;
      unfold only_writes; simpl; rewrite ?update_same; try discriminate; auto.
Qed.

Lemma invariant_reachable : forall s, reachable y s -> invariant s.
Proof. induction 1; [apply invariant_initial | eauto using invariant_step]. Qed.

(* ---- exclusion --------------------------------------------------------------------------------- *)

(* Each voter of a client that is inside validity has a place for it, now; of a writer its token. *)
Lemma voters_have_it : forall s c m until r n,
  invariant s -> phase_of s c = Holding m until -> client_clock (base y) c (now s) < until ->
  by_ r = c -> until <= validity_end y r ->
  existsb (fun v => (voter v =? n)%nat && (steady (base y) (by_ r) n && if request_dec (answered v) r then true else false))
    (votes s) = true ->
  exists k least, reaches (base y) n k = true /\ present (shelf_of s k) c least /\
    (m = Writes -> exclusive (shelf_of s k) c least).
Proof.
  intros s c m until r n inv at_c valid by_c bound voted.
  apply existsb_exists in voted as (v & in_votes & of_n). apply andb_true_iff in of_n as [is_n counted].
  apply andb_true_iff in counted as [covered counted].
  apply Nat.eqb_eq in is_n. destruct (request_dec (answered v) r) as [same |]; [| discriminate].
  destruct (votes_are_meant s inv v in_votes) as (k & set & at_k & past & meaning).
  rewrite same, by_c in *. rewrite is_n in at_k.
  (* what was kept cannot have ended: validity would have ended first *)
  assert (has : forall what_, kept what_ s k c set (clock k set + ttl r) -> what_ (shelf_of s k) c (clock k set + ttl r)).
  { intros what_ [has | (ended & between & lived)]; [assumption | exfalso].
    unfold validity_end in bound. rewrite by_c in bound.
    pose proof (validity_ends_first (drift_ppm (base y) c) (drift_fixed (base y)) (client_ppm (base y)) (server_ppm (base y) k)
      (client_error (base y)) (server_error (base y)) (ttl r) (began r) set ended (now s)
      (client_clock (base y) c) (server_clock (base y) k)) as first.
    assert (server_clock (base y) k ended - server_clock (base y) k set < ttl r); [| lia].
    apply first; try lia.
    - apply (assumed Drift_covers c n k); congruence.
    - apply (assumed Server_clocks_run). lia.
    - apply (assumed Client_clocks_run). lia. }
  destruct meaning as [over | [there alone]]; [congruence |].
  exists k, (clock k set + ttl r). split; [assumption |]. split; [now apply has |].
  intros ->. apply has, alone. unfold only_writes. now rewrite at_c.
Qed.

Lemma writer_is_alone : forall s c d m, reachable y s -> has_lock y s c Writes -> has_lock y s d m -> c = d.
Proof.
  intros s c d m reached (until_c & at_c & in_c) (until_d & at_d & in_d).
  pose proof (invariant_reachable s reached) as inv.
  destruct (holders_are_proven s inv c Writes until_c at_c) as (rc & by_c & past_c & won_c & bound_c).
  destruct (holders_are_proven s inv d m until_d at_d) as (rd & by_d & past_d & won_d & bound_d).
  unfold majority, needed in won_c, won_d.
  rewrite (rules Readers_need_majority : readers_need_majority y = true) in won_c, won_d. simpl in won_c, won_d.
  rewrite Nat.leb_le in won_c, won_d.
  pose proof (assumed Same_nodes (by_ rd) (by_ rc)) as same. simpl in same.
  unfold voters in won_c, won_d. rewrite same in won_d.
  pose proof (assumed Majorities_win (length (list_of (base y) (by_ rc)))) as wins.
  destruct (selections_meet node _ _ (list_of (base y) (by_ rc)) ltac:(
    eapply Nat.lt_le_trans; [| apply Nat.add_le_mono; [exact won_c | exact won_d]]; simpl in *; lia))
    as (n & _ & voted_c & voted_d).
  destruct (voters_have_it s c Writes until_c rc n inv at_c in_c by_c bound_c voted_c) as (k & x & at_k & _ & alone).
  destruct (voters_have_it s d m until_d rd n inv at_d in_d by_d bound_d voted_d) as (k' & x' & at_k' & there & _).
  pose proof (assumed One_server_per_node n k k' at_k at_k'). subst k'.
  destruct (alone eq_refl) as (e & has & _).
  destruct there as [(e' & has' & _) | (e' & b & has' & _)]; congruence.
Qed.

End Exclusion.

(* ---- the theorems ------------------------------------------------------------------------------ *)

(* While a writer is inside validity nobody else is, neither a writer nor a reader. *)
Theorem shared_exclusion : forall y, assumed_for_locks y -> (forall r, obeys y r = true) ->
  forall s, reachable y s ->
  forall c d m, has_lock y s c Writes -> has_lock y s d m -> c = d.
Proof. intros y assumed rules s reached c d m. now apply writer_is_alone. Qed.

(* ---- a lost lock stays lost -------------------------------------------------------------------- *)

Definition inside (y : system) (s : state) (c : attempt) : bool :=
  match phase_of s c with Holding _ until => client_clock (base y) c (now s) <? until | _ => false end.

Lemma has_lock_inside : forall y s c, inside y s c = true <-> exists m, has_lock y s c m.
Proof.
  intros. unfold inside, has_lock. split.
  - destruct (phase_of s c) as [| | m until |]; try discriminate. intros valid. exists m, until. split; [reflexivity | lia].
  - intros (m & until & -> & valid). lia.
Qed.

Definition has_won (s : state) (c : attempt) : Prop := (exists m until, phase_of s c = Holding m until) \/ phase_of s c = Over.

Lemma after_a_step : forall y s e s' c, client_clocks_go_forward (base y) -> step y s e = Some s' -> has_won s c ->
  has_won s' c /\ (inside y s c = false -> inside y s' c = false).
Proof.
  intros y s e s' c forward happens won.
  assert (other : forall d p, d <> c -> has_won (with_phase s d p) c /\
    (inside y s c = false -> inside y (with_phase s d p) c = false)).
  { intros d p differ. unfold inside, has_won in *. simpl. now rewrite update_other by congruence. }
  assert (unchanged : phase_of s' = phase_of s -> now s' = now s -> has_won s' c /\ (inside y s c = false -> inside y s' c = false)).
  { intros same same_time. unfold has_won, inside in *. now rewrite same, same_time. }
  unfold has_won in won.
  destruct e as [span | d ttl_ | n m r | m | m d | m | d until | d ttl_ | d began_ ttl_ until | d ttl_ | d ttl_ | d until | d];
    simpl in happens.
  - (* Time_passes *)
    destruct (0 <=? _) eqn:sign; inversion happens; subst. split; [assumption |].
    unfold inside. simpl. destruct (phase_of s c); auto. rewrite !Z.ltb_ge.
    pose proof (forward c (now s) (now s + span)). lia.
  - (* Begins *)
    destruct (phase_of s d) eqn:at_d; inversion happens; subst.
    destruct (Nat.eq_dec d c) as [-> | differ]; [| now apply other].
    destruct won as [(? & ? & ?) | ?]; congruence.
  - (* Arrives *)
    destruct (reaches (base y) n m && _); [| discriminate].
    destruct (serve _ _ _ _) as [h granted]. inversion happens; subst. destruct granted; now apply unchanged.
  - (* Ends *)
    destruct (held (shelf_of s m)) as [[o e | e] |]; try discriminate;
      (destruct (e <=? _); inversion happens; subst; now apply unchanged).
  - (* Place_ends *)
    destruct (place_of _ _) as [e |]; [| discriminate]. destruct (e <=? _); inversion happens; subst. now apply unchanged.
  - (* Loses *)
    destruct (keeps_data (base y)); inversion happens; subst. now apply unchanged.
  - (* Wins *)
    destruct (phase_of s d) eqn:at_d; try discriminate.
    destruct (majority _ _ _ && _); inversion happens; subst.
    destruct (Nat.eq_dec d c) as [-> | differ]; [| now apply other].
    destruct won as [(? & ? & ?) | ?]; congruence.
  - (* Begins_extension *)
    destruct (phase_of s d); inversion happens; subst. now apply unchanged.
  - (* Extended *)
    destruct (phase_of s d) as [| | m old |] eqn:at_d; try discriminate.
    destruct (extended _ _ _ _ _ _); [| discriminate]. destruct (_ <=? now s); [| discriminate].
    simpl in happens. destruct (client_clock (base y) d (now s) <? old) eqn:valid; [| discriminate].
    simpl in happens. destruct (until <=? _); inversion happens; subst.
    destruct (Nat.eq_dec d c) as [-> | differ]; [| now apply other].
    unfold has_won, inside. simpl. rewrite update_same, at_d. split; [eauto | congruence].
  - (* Repairs *)
    destruct (phase_of s d); inversion happens; subst. now apply unchanged.
  - (* Downgrades *)
    destruct (phase_of s d) as [| | [|] old |] eqn:at_d; try discriminate.
    destruct (downgrade_is_final y); inversion happens; subst; [| now apply unchanged].
    destruct (Nat.eq_dec d c) as [-> | differ]; [| exact (other d (Holding Reads old) differ)].
    unfold has_won, inside. simpl. rewrite update_same, at_d. split; [eauto | auto].
  - (* Cuts *)
    destruct (phase_of s d) as [| | m old |] eqn:at_d; try discriminate.
    destruct (until <=? old) eqn:shorter; inversion happens; subst.
    destruct (Nat.eq_dec d c) as [-> | differ]; [| now apply other].
    unfold has_won, inside. simpl. rewrite update_same, at_d. split; [eauto |]. rewrite !Z.ltb_ge. lia.
  - (* Releases *)
    inversion happens; subst.
    destruct (Nat.eq_dec d c) as [-> | differ]; [| exact (other d Over differ)].
    unfold has_won, inside. simpl. rewrite update_same. auto.
Qed.

Lemma after_a_run : forall y s t c, client_clocks_go_forward (base y) -> follows y s t -> has_won s c ->
  has_won t c /\ (inside y s c = false -> inside y t c = false).
Proof.
  intros y s t c forward run won. induction run as [| t e u run [won' outside] happens]; [now split |].
  destruct (after_a_step y t e u c forward happens won'). split; auto.
Qed.

(* If c has the lock at two moments, as a writer or as a reader, then no other client had it as a writer
   between them. So a writer that became a reader goes on reading what it wrote. *)
Theorem no_writer_between : forall y, assumed_for_locks y -> (forall r, obeys y r = true) ->
  client_clocks_go_forward (base y) ->
  forall s t u c d m m', reachable y s -> follows y s t -> follows y t u ->
  has_lock y s c m -> has_lock y u c m' -> has_lock y t d Writes -> d = c.
Proof.
  intros y assumed rules forward s t u c d m m' reached to_t to_u at_first at_last between.
  assert (won : has_won s c) by (destruct at_first as (until & at_c & _); left; eauto).
  destruct (after_a_run y s t c forward to_t won) as [won_t _].
  destruct (after_a_run y t u c forward to_u won_t) as [_ lost].
  assert (valid : inside y t c = true).
  { destruct (inside y t c); [reflexivity |].
    assert (inside y u c = true) by (apply has_lock_inside; eauto). rewrite lost in H by reflexivity. discriminate. }
  apply has_lock_inside in valid as (m'' & has).
  apply (shared_exclusion y assumed rules t) with m''; eauto using follows_reachable.
Qed.
