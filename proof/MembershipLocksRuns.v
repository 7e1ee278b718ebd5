(* SPDX-License-Identifier: BSD-2-Clause

   Locks while the list of members changes: runs that Coq executes. A lock survives two changes, after
   which none of the nodes that granted it counts. And for each rule what happens without it. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipLocks MembershipLives MembershipExclusion.
Import ListNotations.
Open Scope Z_scope.

Definition second : Z := 1000 * ms.
Definition tick : Z := 20 * ms. (* a step *)
Definition A : attempt := 0%nat.
Definition B : attempt := 1%nat.

Definition same_rule (a b : rule) : bool :=
  match a, b with
  | Changes_one, Changes_one | Settles_first, Settles_first | Gathers_enough, Gathers_enough
  | Witnesses_switched, Witnesses_switched | Waits_to_settle, Waits_to_settle | Counts_members, Counts_members
  | Counts_majority, Counts_majority | Counts_newest, Counts_newest | Waits_after_loss, Waits_after_loss
  | Recovers_by_majority, Recovers_by_majority | Raises_floor, Raises_floor => true
  | _, _ => false
  end.

(* So many first members, one resource. *)
Definition world (members : nat) (dropped : option rule) : system := {|
  first := seq 0 members;
  resource_of := fun _ => 0%nat;
  time_at := fun n => Z.of_nat n * tick;
  client_clock := fun _ t => t;
  agent_clock := fun _ t => t;
  server_clock := fun _ _ t => t;
  client_ppm := 5000; server_ppm := 5000; agent_ppm := 5000; client_error := 0; server_error := ms;
  agent_error := 0;
  drift_ppm := ppm_default; drift_fixed := fixed_default;
  ttl_max := second;
  drops := fun r => match dropped with Some d => same_rule r d | None => false end;
|}.

Lemma world_is_well_formed : forall members dropped, well_formed (world members dropped).
Proof.
  intros members dropped. constructor; cbn [world time_at first]; [| apply seq_NoDup].
  intros m n less. apply Z.mul_le_mono_nonneg_r; [vm_compute; discriminate | lia].
Qed.

Lemma world_clocks_run : forall members dropped, clocks_run (world members dropped).
Proof.
  intros members dropped. constructor;
    cbn [world client_clock agent_clock server_clock client_ppm agent_ppm server_ppm client_error server_error agent_error
         drift_ppm drift_fixed]; intros; unfold million; try lia.
  - unfold ms. lia.
  - repeat split; vm_compute; discriminate.
  - repeat split; vm_compute; discriminate.
Qed.

(* ---- the parts of the stories -------------------------------------------------------------------- *)

Local Open Scope nat_scope.

(* A part of a story, by the moment at which it begins. *)
Definition part := nat -> list event.
Definition do_ (l : list event) : part := fun _ => l.
Definition followed (p q : part) : part := fun m => let l := p m in l ++ q (m + length l).
Infix ";;" := followed (at level 60, right associativity).
Definition told (p : part) : list event := p 1.

Definition validity (began : nat) : Z := (Z.of_nat began * tick + second - 12 * ms)%Z.

(* Client c acquires the lock with token t by these nodes, by the list of epoch e. *)
Definition acquires (c : attempt) (t : Z) (e : nat) (l : list node) : part := fun m =>
  [Begins c second] ++ map (fun n => Sets n c m second) l ++ map (fun n => Votes n c m second t) l ++
  [Wins c t e (seq 0 (length l)) (validity m)].
(* It sets its key where it is absent (repair), then extends the lock. *)
Definition extends (c : attempt) (t : Z) (e : nat) (absent l : list node) : part := fun m =>
  map (fun n => Sets n c m second) absent ++ map (fun n => Extends n c m second t) l ++
  [Extended c m second e (seq 0 (length l)) (validity m)].

(* 51 steps are 1.02 s: enough for 1 s and drift. *)
Definition passes (n : nat) : part := do_ (repeat Passes n).
Definition the_wait : part := passes 51.

(* Whatever is seen of a node goes into the log: newest first. *)
Definition is_seen (e : event) : bool :=
  match e with Reads _ | Votes _ _ _ _ _ | Raises _ => true | _ => false end.
Definition seen_in (l : list event) : nat := length (filter is_seen l).

(* The newest epoch is gathered: these nodes are read, then the wait, in which other things happen. *)
Definition gathers (witnesses : list node) (meanwhile : part) : part := fun m =>
  let reads := map Reads witnesses in
  let from := m + length reads in
  let during := meanwhile from in
  reads ++ during ++
  [Gathers (seq (seen_in during) (length witnesses)) {| waiter := 0; wait_from := from; wait_to := from + length during |}].
(* Its fences are raised, and it is marked. *)
Definition marks (l : list node) : part := do_ (map Raises l ++ [Marks l]).
Definition switch (e : nat) (l : list node) : part := do_ (map (fun n => Switches n e) l).

(* A node that has no data waits, reads these, and is intact. *)
Definition recovers (n : node) (sources : list node) (meanwhile : part) : part := fun m =>
  let during := meanwhile m in
  during ++ map Reads sources ++
  [Installs n (seq 0 (length sources)) {| waiter := 0; wait_from := m; wait_to := m + length during |}].
Definition loses (n : node) : part := do_ [Loses n (fun _ => None) (fun _ => 0%Z)].

(* ---- a lock survives two changes ------------------------------------------------------------------ *)

(* A holds the lock by nodes 0 and 1. Node 3 is added, and recovers while epoch 1 is settled. Meanwhile A
   extends, by nodes 0, 1 and 2. Then node 0 is removed, and A extends by nodes 2 and 3. At the end A
   releases, and B acquires. *)
Definition survives (t : Z) : list event := told (
  acquires A 5 0 [0; 1] ;;
  do_ [Decides [0; 1; 2; 3] [0; 2]] ;; switch 1 [0; 1; 2] ;;
  extends A 5 1 [2] [0; 1; 2] ;;
  gathers [0; 1] (passes 20 ;; extends A 5 1 [] [0; 1; 2] ;; passes 27) ;;
  marks [0; 1; 2] ;;
  extends A 5 1 [] [0; 1; 2] ;;
  (fun m => map Reads [0; 1; 2] ++ [Installs 3 [0; 1; 2] {| waiter := 0; wait_from := 20; wait_to := m |}]) ;;
  do_ [Decides [1; 2; 3] [1; 2; 3]] ;; switch 2 [0; 1; 2; 3] ;;
  extends A 5 2 [3] [3; 2] ;; passes 20 ;;
  do_ [Releases A; Deletes 1 A; Deletes 2 A; Deletes 3 A] ;; acquires B t 2 [1; 2]).

Definition before_the_end : list event := firstn (length (survives 6) - 10) (survives 6).

Definition outcome (y : system) (events : list event) : option (nat * list Z * bool * bool) :=
  match run y (initial y) events with
  | Some s => Some (newest s, map token (grants s), inside y s A, inside y s B)
  | None => None
  end.

Example a_lock_survives :
  well_formed (world 3 None) /\ obeys (world 3 None) /\ clocks_run (world 3 None) /\
  outcome (world 3 None) before_the_end = Some (2%nat, [5%Z], true, false) /\
  outcome (world 3 None) (survives 6) = Some (2%nat, [6%Z; 5%Z], false, true) /\
  outcome (world 3 None) (survives 5) = None.
Proof.
  split; [apply world_is_well_formed |]. split; [intros r; reflexivity |]. split; [apply world_clocks_run |].
  repeat split; vm_compute; reflexivity.
Qed.

(* ---- a rule that is dropped ----------------------------------------------------------------------- *)

(* Of nodes 0, 1 and 2, node 0 is removed, then node 1. *)
Definition removes_0 : part := do_ [Decides [1; 2] [0; 1]].
Definition removes_1 : part := do_ [Decides [2] [1; 2]] ;; switch 2 [2].
Definition b_wins_by_2 : part := acquires B 6 2 [2].

Definition story (dropped : rule) : list event := told (
  match dropped with
  | Changes_one => (* nodes 0 and 1 are removed at once *)
      acquires A 5 0 [0; 1] ;; do_ [Decides [2] [0; 1]] ;; switch 1 [2] ;; acquires B 6 1 [2]
  | Settles_first =>
      acquires A 5 0 [0; 1] ;; removes_0 ;; switch 1 [1; 2] ;; removes_1 ;; b_wins_by_2
  | Gathers_enough => (* node 2 alone: nodes 0 and 1 still vote for epoch 0 *)
      removes_0 ;; switch 1 [2] ;; gathers [2] (the_wait ;; acquires A 5 0 [0; 1]) ;; switch 1 [1] ;;
      marks [1; 2] ;; removes_1 ;; b_wins_by_2
  | Witnesses_switched => (* node 1 switches at the end of the wait *)
      removes_0 ;; switch 1 [2] ;; gathers [1; 2] (the_wait ;; acquires A 5 0 [0; 1] ;; switch 1 [1]) ;;
      marks [1; 2] ;; removes_1 ;; b_wins_by_2
  | Waits_to_settle =>
      acquires A 5 0 [0; 1] ;; removes_0 ;; switch 1 [1; 2] ;; gathers [1; 2] (passes 0) ;;
      marks [1; 2] ;; removes_1 ;; b_wins_by_2
  | Counts_members => (* of four, node 0 is removed, and B counts its vote *)
      do_ [Decides [1; 2; 3] [0; 1; 2]] ;; switch 1 [0; 1; 2; 3] ;; acquires A 5 1 [1; 2] ;; acquires B 6 1 [0; 3]
  | Counts_majority => acquires A 5 0 [0; 1] ;; acquires B 6 0 [2]
  | Counts_newest => (* B counts nodes 0 and 1 by the list of epoch 0, although node 1 is at epoch 2 *)
      removes_0 ;; switch 1 [1; 2] ;; gathers [1; 2] the_wait ;; marks [1; 2] ;; removes_1 ;; switch 2 [1] ;;
      acquires A 5 2 [2] ;; acquires B 6 0 [0; 1]
  | Waits_after_loss =>
      acquires A 5 0 [0; 1] ;; loses 1 ;; recovers 1 [0; 2] (passes 0) ;; acquires B 6 0 [1; 2]
  | Recovers_by_majority => (* node 1 goes back to epoch 0: it has read node 0 alone *)
      removes_0 ;; switch 1 [1; 2] ;; gathers [1; 2] the_wait ;; marks [1; 2] ;; removes_1 ;;
      loses 1 ;; recovers 1 [0] the_wait ;; acquires A 5 0 [0; 1] ;; b_wins_by_2
  | Raises_floor => (* node 2 does not know of A's token *)
      acquires A 5 0 [0; 1] ;; removes_0 ;; switch 1 [1; 2] ;; gathers [1; 2] the_wait ;;
      do_ [Marks [1; 2]] ;; removes_1 ;; acquires B 3 2 [2]
  end).

Local Open Scope Z_scope.

Definition members_in (r : rule) : nat := match r with Counts_members => 4%nat | _ => 3%nat end.

Definition two_hold (y : system) (s : state) : Prop :=
  exists c d x, c <> d /\ has_lock y s c x /\ has_lock y s d x.

(* A lock was acquired after another one had been, and its token is not higher. *)
Definition token_falls (y : system) (s : state) : Prop :=
  exists g g', In g (grants s) /\ In g' (grants s) /\ resource_of y (winner g) = resource_of y (winner g') /\
    (won_at g < grant_began g')%nat /\ token g' <= token g.

Definition went_wrong (r : rule) : bool :=
  let y := world (members_in r) (Some r) in
  match run y (initial y) (story r) with
  | Some s => match grants s with
              | [g'; g] => (winner g =? A)%nat && (winner g' =? B)%nat &&
                           ((inside y s A && inside y s B) ||
                            (won_at g <? grant_began g')%nat && (token g' <=? token g))
              | _ => false
              end
  | None => false
  end.

Lemma every_story_goes_wrong : forall r, went_wrong r = true.
Proof. destruct r; vm_compute; reflexivity. Qed.

Theorem each_rule_of_changes_is_needed : forall r, exists y,
  well_formed y /\ clocks_run y /\ (forall r', r' <> r -> drops y r' = false) /\
  exists s, reachable y s /\ (two_hold y s \/ token_falls y s).
Proof.
  intros r. exists (world (members_in r) (Some r)).
  split; [apply world_is_well_formed |]. split; [apply world_clocks_run |].
  split; [intros r' other; destruct r, r'; congruence || reflexivity |].
  pose proof (every_story_goes_wrong r) as wrong. unfold went_wrong in wrong.
  set (y := world (members_in r) (Some r)) in *.
  destruct (run y (initial y) (story r)) as [s |] eqn:ran; [| discriminate].
  exists s. split; [eapply run_reachable; [apply at_first | eassumption] |].
  destruct (grants s) as [| g' [| g [|]]] eqn:is; try discriminate.
  rewrite !andb_true_iff, orb_true_iff, !andb_true_iff, !Nat.eqb_eq, Z.leb_le, Nat.ltb_lt in wrong.
  destruct wrong as ((a & b) & [[in_a in_b] | [later lower]]).
  - left. exists A, B, 0%nat. repeat split; try assumption. discriminate.
  - right. exists g, g'. rewrite is. simpl. repeat split; auto.
Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

Definition kind (e : event) : nat :=
  match e with
  | Passes => 0 | Begins _ _ => 1 | Sets _ _ _ _ => 2 | Votes _ _ _ _ _ => 3 | Extends _ _ _ _ _ => 4 | Bumps _ _ _ => 5
  | Deletes _ _ => 6 | Ends _ _ => 7 | Loses _ _ _ => 8 | Reads _ => 9 | Installs _ _ _ => 10 | Decides _ _ => 11
  | Switches _ _ => 12 | Gathers _ _ => 13 | Raises _ => 14 | Marks _ => 15 | Wins _ _ _ _ _ => 16
  | Extended _ _ _ _ _ _ => 17 | Cuts _ _ => 18 | Releases _ => 19
  end%nat.

Local Open Scope nat_scope.

(* A lock survives two changes; then a fence is raised, B's lock is cut, its key ends, and a node is lost. *)
Definition survives_and_ends : list event :=
  survives 6%Z ++ [Bumps 1 0 9%Z; Cuts B 0%Z] ++ repeat Passes 51 ++ [Ends 1 0; Loses 2 (fun _ => None) (fun _ => 0%Z)].

Theorem every_step_occurs : exists y events s, well_formed y /\ obeys y /\ clocks_run y /\
  run y (initial y) events = Some s /\ all_occur kind (fun _ => false) events.
Proof.
  set (y := world 3 None).
  destruct (can_run_to (step y) (initial y) survives_and_ends) as [s ran]; [vm_compute; reflexivity |].
  exists y, survives_and_ends, s. split; [apply world_is_well_formed |]. split; [intros r; reflexivity |].
  split; [apply world_clocks_run |]. split; [assumption | all_occur].
Qed.
