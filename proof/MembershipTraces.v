(* SPDX-License-Identifier: BSD-2-Clause

   Membership changes: a checker of traces, and that what it accepts is a run of the proved systems.

   A trace says what the records on the nodes were in one run of the code. The checker computes with `step` of
   Membership.v, which decides what the members are, and with `revise` of MembershipRevisions.v, which settles it, on
   their states. What a trace does not say, for instance which promises an operator has counted, and when, is a hint that
   the reader of traces has added: a wrong hint is refused, as a step is. So a record that no operator may write, or not
   yet, is refused: that of a change which too few have promised or accepted, or which is not the one that was accepted
   before, or that is settled too early. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipChosen.
From Redlock Require MembershipLocks MembershipRevisions ClassicTraces.
Import ListNotations.
Open Scope nat_scope.

(* ---- the world of a trace ---------------------------------------------------------------------- *)

Record world := {
  begins_with : list node;                          (* the members, *)
  ttl : Z;                                          (* ttl_max, *)
  shortest_ttl : Z;                                 (* and the shortest that it has *)
  clocks : list (list ClassicTraces.segment);       (* by client *)
  times : list Z; ends_at : Z;                      (* of the moments, and of those after them *)
  ppm : Z; fixed : Z;                               (* the drift allowance *)
}.

Definition system_of (w : world) : system := {| first := begins_with w; drops := fun _ => false |}.

(* No client takes a lock here, and what servers do with keys and fences is left out. The wait of a node that lost
   its data is compared with the shortest ttl_max of the trace, and that of settling with the present one. *)
Definition locks_of (w : world) : MembershipLocks.system := {|
  MembershipLocks.first := begins_with w; MembershipLocks.resource_of := fun _ => 0;
  MembershipLocks.time_at := fun m => nth m (times w) (ends_at w);
  MembershipLocks.client_clock := fun _ t => t;
  MembershipLocks.agent_clock := fun a => ClassicTraces.clock_at (nth a (clocks w) ClassicTraces.true_clock);
  MembershipLocks.server_clock := fun _ _ t => t;
  MembershipLocks.client_ppm := 0%Z; MembershipLocks.server_ppm := 0%Z; MembershipLocks.agent_ppm := 0%Z;
  MembershipLocks.client_error := 0%Z; MembershipLocks.server_error := 0%Z;
  MembershipLocks.agent_error := Z.of_nat (ClassicTraces.segments_max (clocks w));
  MembershipLocks.drift_ppm := ppm w; MembershipLocks.drift_fixed := fixed w; MembershipLocks.ttl_max := shortest_ttl w;
  MembershipLocks.drops := fun _ => false |}.

Record both := { decides : state; settles : MembershipRevisions.revised }.

Definition initially (w : world) : both :=
  {| decides := initial (system_of w); settles := MembershipRevisions.at_first_revision (locks_of w) (ttl w) |}.

(* ---- what a trace says -------------------------------------------------------------------------- *)

(* What else a record has. *)
Record epoch_seen := { is_settled : bool; ttl_seen : Z; ttl_next_seen : Z }.

Inductive fact :=
| Happens (e : event)
| Settles (e : MembershipRevisions.revised_event)
| Record_is (n : node) (r : record) (x : epoch_seen)   (* after what happened *)
| No_record (n : node).

Definition same_list (a b : list node) : bool := if list_eq_dec Nat.eq_dec a b then true else false.
Definition same_change (a b : change) : bool :=
  match a, b with
  | Adds n, Adds m | Removes n, Removes m | Sets_ttl_max n, Sets_ttl_max m => n =? m
  | _, _ => false
  end.
Definition same_accepted (a b : option (nat * change)) : bool :=
  match a, b with
  | Some (i, c), Some (j, d) => (i =? j) && same_change c d
  | None, None => true
  | _, _ => false
  end.
(* But for the nonce, which is a moment in the proof, and random in the code. *)
Definition same_record (a b : record) : bool :=
  (epoch a =? epoch b) && same_list (members a) (members b) && (ballot a =? ballot b) &&
  same_accepted (accepted a) (accepted b).

(* The list of an epoch, and its number and its revision in MembershipRevisions.v. *)
Definition list_at (d : list (nat * list node)) (e : nat) : list node :=
  match find (fun x => fst x =? e) d with Some (_, l) => l | None => [] end.
Fixpoint place_of (d : list (nat * list node)) (e : nat) : nat * nat :=
  match e with
  | O => (0, 0)
  | S before => let (i, k) := place_of d before in
                if same_list (list_at d e) (list_at d before) then (i, S k) else (S i, 0)
  end.

Definition agrees (b : both) (n : node) (r : record) (x : epoch_seen) : bool :=
  let q := settles b in
  let s := MembershipRevisions.locks q in
  let (i, k) := place_of (decided (decides b)) (epoch r) in
  let newest := i =? MembershipLocks.newest s in
  let latest := newest && (k =? MembershipRevisions.latest q) in
  match MembershipLocks.stands (MembershipLocks.nodes s n) with MembershipLocks.Intact e => e =? i | MembershipLocks.Lost => false end &&
  same_list (members r) (MembershipLocks.list_of s i) &&
  (negb newest || (MembershipRevisions.revision_of q n =? k)) &&
  (negb (is_settled x) || MembershipLocks.settled s i && (negb latest || MembershipRevisions.finished q)) &&
  (negb latest || (ttl_seen x =? MembershipRevisions.ttl_is q)%Z && (ttl_next_seen x =? MembershipRevisions.ttl_next q)%Z).

Definition check_one (y : system) (z : MembershipLocks.system) (b : both) (f : fact) : option both :=
  match f with
  | Happens e => match step y (decides b) e with
                 | Some s => Some {| decides := s; settles := settles b |}
                 | None => None
                 end
  | Settles e => match MembershipRevisions.revise z (settles b) e with
                 | Some q => Some {| decides := decides b; settles := q |}
                 | None => None
                 end
  | Record_is n r x =>
      match record_of (decides b) n with
      | Some r' => if same_record r' r && agrees b n r x then Some b else None
      | None => None
      end
  | No_record n =>
      match record_of (decides b) n, MembershipLocks.stands (MembershipLocks.nodes (MembershipRevisions.locks (settles b)) n) with
      | None, MembershipLocks.Lost => Some b
      | _, _ => None
      end
  end.

Fixpoint follow (y : system) (z : MembershipLocks.system) (b : both) (l : list fact) : option both :=
  match l with
  | [] => Some b
  | f :: l => match check_one y z b f with Some b' => follow y z b' l | None => None end
  end.

Definition check (w : world) (facts : list fact) : option both :=
  if all_differ (begins_with w) then follow (system_of w) (locks_of w) (initially w) facts else None.

(* ---- what it accepts ---------------------------------------------------------------------------- *)

Lemma decided_stays : forall y s e s' x, step y s e = Some s' -> In x (decided s) -> In x (decided s').
Proof.
  intros y s e s' x happens was. unfold step in happens. destruct (act y s e) as [u |] eqn:acts; [| discriminate].
  inversion happens; subst s'; clear happens.
  destruct e; simpl in acts;
    repeat match type of acts with
    | match ?x with _ => _ end = _ => destruct x eqn:?; try discriminate
    | when _ _ = Some _ => apply when_some in acts as [_ ->]
    | Some _ = Some _ => inversion acts; subst u; clear acts
    end; simpl; auto.
Qed.

Lemma same_record_is : forall a b, same_record a b = true -> epoch a = epoch b /\ members a = members b.
Proof.
  intros a b same. unfold same_record in same. rewrite !andb_true_iff, Nat.eqb_eq in same. unfold same_list in same.
  destruct same as [[[same_epoch same_members] _] _]. destruct (list_eq_dec _ _ _); [auto | discriminate].
Qed.

Section World.
Variable w : world.
Notation y := (system_of w).
Notation z := (locks_of w).

Definition is_run (b : both) : Prop :=
  reachable y (decides b) /\ MembershipRevisions.revised_reachable z (ttl w) (settles b).

Lemma check_one_runs : forall b f b', is_run b -> check_one y z b f = Some b' ->
  is_run b' /\ (forall x, In x (decided (decides b)) -> In x (decided (decides b'))).
Proof.
  intros b f b' [run settled] is. destruct f as [e | e | n r x | n]; cbn [check_one] in is.
  - destruct (step _ _ e) as [s |] eqn:happens; [| discriminate]. inversion is; subst b'; clear is. cbn [decides settles].
    split; [split; [eauto using and_then | assumption] | eauto using decided_stays].
  - destruct (MembershipRevisions.revise _ _ e) as [q |] eqn:happens; [| discriminate]. inversion is; subst b'; clear is.
    split; [split; [assumption | eauto using and_then] | auto].
  - destruct (record_of (decides b) n); [| discriminate]. destruct (_ && _); inversion is; subst. now repeat split.
  - destruct (record_of (decides b) n); [discriminate |]. destruct (MembershipLocks.stands _); inversion is; subst.
    now repeat split.
Qed.

Lemma follow_runs : forall l b b', NoDup (begins_with w) -> is_run b -> follow y z b l = Some b' ->
  is_run b' /\ (forall x, In x (decided (decides b)) -> In x (decided (decides b'))) /\
  (forall n r x, In (Record_is n r x) l -> In (epoch r, members r) (decided (decides b'))).
Proof.
  induction l as [| f l IH]; intros b b' one run is; cbn [follow] in is.
  { inversion is; subst. split; [assumption |]. split; [auto | contradiction]. }
  destruct (check_one y z b f) as [c |] eqn:checks; [| discriminate].
  destruct (check_one_runs b f c run checks) as [run' stays].
  destruct (IH c b' one run' is) as (run'' & stays' & told). split; [assumption |]. split; [auto |].
  intros n r x [this | in_]; [| eauto]. subst f. cbn [check_one] in checks. apply stays', stays.
  destruct (record_of (decides b) n) as [r0 |] eqn:has; [| discriminate].
  destruct (same_record r0 r && _) eqn:same; [| discriminate]. apply andb_true_iff in same as [same _].
  apply same_record_is in same as [<- <-].
  now apply (one_chain_of_lists y (fun _ => eq_refl) one (decides b) (proj1 run)) with n.
Qed.

End World.

Lemma check_runs : forall w facts b, check w facts = Some b -> NoDup (begins_with w) /\ is_run w b /\
  forall n r x, In (Record_is n r x) facts -> In (epoch r, members r) (decided (decides b)).
Proof.
  intros w facts b accepted. unfold check in accepted. destruct (all_differ (begins_with w)) eqn:one; [| discriminate].
  apply all_differ_NoDup in one. split; [assumption |].
  assert (at_first : is_run w (initially w)) by (split; constructor).
  destruct (follow_runs w facts _ b one at_first accepted) as (run & _ & told). now split.
Qed.

(* What the checker accepts is a run of both systems. *)
Theorem accepted_membership_traces_run : forall w facts b, check w facts = Some b ->
  reachable (system_of w) (decides b) /\ MembershipRevisions.revised_reachable (locks_of w) (ttl w) (settles b).
Proof. intros w facts b accepted. apply (check_runs w facts b accepted). Qed.

(* So of two records that any nodes had at any time, those of one epoch have the same members, and those of
   consecutive epochs differ by at most one. *)
Theorem accepted_records_agree : forall w facts b, check w facts = Some b ->
  forall n r x n' r' x', In (Record_is n r x) facts -> In (Record_is n' r' x') facts ->
  (epoch r = epoch r' -> members r = members r') /\
  (epoch r' = S (epoch r) -> one_change (members r) (members r')).
Proof.
  intros w facts b accepted n r x n' r' x' told told'. destruct (check_runs w facts b accepted) as (one & [run _] & decides_).
  destruct (one_chain_of_lists (system_of w) (fun _ => eq_refl) one _ run) as (_ & once & chain).
  apply decides_ in told, told'. split.
  - intros same. rewrite same in told. eauto.
  - intros later. rewrite later in told'. destruct (chain _ _ told') as (l0 & in_ & change). now rewrite (once _ _ _ told in_).
Qed.
