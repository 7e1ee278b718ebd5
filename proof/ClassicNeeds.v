(* SPDX-License-Identifier: BSD-2-Clause

   Classic mode: no assumption can be dropped.

   For each assumption there is a system that satisfies all the others, and a run of it after which two
   clients are inside the validity of one lock. Coq executes the runs. The last example is a run of a
   system that satisfies all assumptions: clients can take the lock, extend it, repair it and hand it
   over, so the theorem does not hold merely because nothing can happen. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic.
Import ListNotations.
Open Scope Z_scope.

Definition second : Z := 1000 * ms.

(* Three servers, one resource, clocks that are right, the settings and the rules of the library; but
   where an assumption is dropped, the first thing that violates it. *)
Definition without (dropped : option assumption) : system := {|
  list_of := fun c =>
    match dropped with
    | Some Same_nodes => if (c =? 0)%nat then [0; 1; 2]%nat else [2; 3; 4]%nat
    | Some Majorities_win => [0; 1; 2; 3]%nat
    | _ => [0; 1; 2]%nat
    end;
  reaches := fun n m =>
    match dropped with
    | Some One_server_per_node => (n =? m)%nat || ((n =? 0)%nat && (m =? 3)%nat)
    | _ => (n =? m)%nat
    end;
  resources_of := fun _ => [0%nat];
  token_of := fun c => match dropped with Some Tokens_are_unique => 7%nat | _ => c end;
  client_clock := fun c t =>
    match dropped with
    | Some Client_clocks_run => if (c =? 0)%nat then 0 else t (* the machine is suspended *)
    | Some Drift_covers => t - t / 100
    | _ => t
    end;
  server_clock := fun m t =>
    match dropped with
    | Some Server_clocks_run => if (m =? 0)%nat && (10 <=? t) then t + second else t (* a step *)
    | Some Drift_covers => t + t / 100
    | _ => t
    end;
  client_ppm := match dropped with Some Drift_covers => 10000 | _ => 5000 end;
  server_ppm := fun _ => match dropped with Some Drift_covers => 10000 | _ => 5000 end;
  client_error := match dropped with Some Drift_covers => 1 | _ => 0 end;
  server_error := match dropped with Some Drift_covers => 1 | _ => ms end;
  drift_ppm := fun _ => ppm_default;
  steady := fun _ _ => true;
  drift_fixed := fixed_default;
  quorum := match dropped with Some Majorities_win => fun nodes => (nodes / 2)%nat | _ => majority_of end;
  keeps_data := match dropped with Some Keys_are_kept => false | _ => true end;
  sets_if_absent := match dropped with Some Sets_if_absent => false | _ => true end;
  extend_compares := match dropped with Some Extend_compares => false | _ => true end;
  extend_never_shortens := match dropped with Some Extend_never_shortens => false | _ => true end;
  delete_compares := match dropped with Some Delete_compares => false | _ => true end;
  counts_own_round := match dropped with Some Counts_own_round => false | _ => true end;
  reads_clock_first := match dropped with Some Reads_clock_first => false | _ => true end;
  release_ends := match dropped with Some Release_ends => false | _ => true end;
|}.

(* ---- the stories ------------------------------------------------------------------------------- *)

Definition A : attempt := 0%nat.
Definition B : attempt := 1%nat.
Definition C : attempt := 2%nat. (* another try, of any client *)
Definition lock : resource := 0%nat.
Definition node_0 : node := 0%nat.
Definition node_1 : node := 1%nat.
Definition node_2 : node := 2%nat.
Definition node_3 : node := 3%nat.
Definition node_4 : node := 4%nat.
Definition at_own (n : node) (r : request) : event := Arrives n n r.

(* A second of TTL, 1 % and 2 ms of drift. *)
Definition validity : Z := second - 12 * ms.

(* An attempt that begins at t and is granted by two servers. *)
Definition takes (c : attempt) (t : time) (n m : node) : list event :=
  [Begins c second; at_own n (set_of c t second); at_own m (set_of c t second); Wins c (t + validity)].

Definition story (dropped : assumption) : list event :=
  match dropped with
  | Keys_are_kept => takes A 0 node_0 node_1 ++ [Loses node_0 lock] ++ takes B 0 node_0 node_2
  | One_server_per_node =>
      takes A 0 node_0 node_1 ++
      [Begins B second; Arrives node_0 3%nat (set_of B 0 second); at_own node_2 (set_of B 0 second);
       Wins B validity]
  | Server_clocks_run =>
      takes A 0 node_0 node_1 ++ [Time_passes 10; Ends node_0 lock] ++ takes B 10 node_0 node_2
  | Same_nodes => takes A 0 node_0 node_1 ++ takes B 0 node_3 node_4
  | Client_clocks_run =>
      takes A 0 node_0 node_1 ++ [Time_passes second; Ends node_0 lock] ++ takes B second node_0 node_2
  | Drift_covers => (* 30 s; by the servers' clocks they are over after 29.703 s *)
      let ttl := 30 * second in let t := 29702970298 in
      [Begins A ttl; at_own node_0 (set_of A 0 ttl); at_own node_1 (set_of A 0 ttl); Wins A 29698000000;
       Time_passes t; Ends node_0 lock;
       Begins B ttl; at_own node_0 (set_of B t ttl); at_own node_2 (set_of B t ttl); Wins B 59100000000]
  | Majorities_win => takes A 0 node_0 node_1 ++ takes B 0 node_2 node_3
  | Tokens_are_unique => (* C gives up, and deletes what it takes for its own *)
      takes A 0 node_0 node_1 ++ [Begins C second; Releases C; at_own node_0 (delete_of C)] ++
      takes B 0 node_0 node_2
  | Sets_if_absent => takes A 0 node_0 node_1 ++ takes B 0 node_0 node_1
  | Extend_compares => (* A extends its own key at node 1, and that of B at node 2 *)
      let t := 500 * ms in
      takes A 0 node_0 node_1 ++ [Time_passes t; Begins B second; at_own node_2 (set_of B t second);
        Begins_extension A second; at_own node_1 (extend_of A t second); at_own node_2 (extend_of A t second);
        Extended A t second (t + validity);
        Time_passes t; Ends node_0 lock; at_own node_0 (set_of B t second); Wins B (t + validity)]
  | Extend_never_shortens => (* a late request for 10 ms *)
      let t := 100 * ms in
      takes A 0 node_0 node_1 ++ [Time_passes t; Begins_extension A (10 * ms);
        at_own node_0 (extend_of A t (10 * ms)); Time_passes (10 * ms); Ends node_0 lock] ++
      takes B (t + 10 * ms) node_0 node_2
  | Delete_compares =>
      takes A 0 node_0 node_1 ++ [Begins C second; Releases C; at_own node_0 (delete_of C)] ++
      takes B 0 node_0 node_2
  | Counts_own_round => (* A takes the votes for its SET for an extension that reached no server *)
      takes A 0 node_0 node_1 ++ [Time_passes (900 * ms); Begins_extension A second;
        Extended A (900 * ms) second (900 * ms + validity); Time_passes (100 * ms); Ends node_0 lock] ++
      takes B second node_0 node_2
  | Reads_clock_first => (* the answers took half a second *)
      [Begins A second; at_own node_0 (set_of A 0 second); at_own node_1 (set_of A 0 second);
       Time_passes (500 * ms); Wins A (500 * ms + validity); Time_passes (500 * ms); Ends node_0 lock] ++
      takes B second node_0 node_2
  | Release_ends =>
      takes A 0 node_0 node_1 ++ [Releases A; at_own node_0 (delete_of A)] ++ takes B 0 node_0 node_2
  end.

(* ---- running them ------------------------------------------------------------------------------ *)

Definition has_lock_b (y : system) (s : state) (c : attempt) : bool :=
  inside y s c && among (resources_of y c) lock.

Definition two_hold (y : system) (events : list event) : bool :=
  match run y initial events with
  | Some s => has_lock_b y s A && has_lock_b y s B
  | None => false
  end.

Lemma two_hold_is_so : forall y events, two_hold y events = true ->
  exists s, reachable y s /\ has_lock y s A lock /\ has_lock y s B lock.
Proof.
  intros y events both. unfold two_hold in both.
  destruct (run y initial events) as [s |] eqn:ran; [| discriminate].
  apply andb_true_iff in both as [a b]. apply andb_true_iff in a as [? a], b as [? b].
  apply among_in in a, b.
  exists s. repeat split; try assumption. eapply run_reachable; [apply at_first | eassumption].
Qed.

Lemma every_story_ends_with_two : forall a, two_hold (without (Some a)) (story a) = true.
Proof. destruct a; vm_compute; reflexivity. Qed.

(* ---- only that assumption is dropped ----------------------------------------------------------- *)

Ltac check_assumption :=
  unfold holds; cbn [without keeps_data reaches server_clock server_ppm server_error client_clock client_ppm
    client_error list_of drift_ppm drift_fixed steady quorum token_of sets_if_absent extend_compares
    extend_never_shortens delete_compares counts_own_round reads_clock_first release_ends];
  intros;
  try match goal with
  | |- drift_covers _ _ _ _ _ _ => repeat split; vm_compute; discriminate
  | |- (_ < _)%nat => apply majority_is_more_than_half
  | |- @eq server _ _ => repeat match goal with h : (_ =? _)%nat = true |- _ => apply Nat.eqb_eq in h end; congruence
  | |- (_ <= _) => unfold million, ms in *; Z.to_euclidean_division_equations; lia
  end;
  try reflexivity; try assumption.

Lemma others_hold : forall a b, b <> a -> holds b (without (Some a)).
Proof. intros a b other. destruct b; destruct a; try congruence; check_assumption. Qed.

Lemma all_hold : forall b, holds b (without None).
Proof. destruct b; check_assumption. Qed.

Theorem each_assumption_is_needed : forall a, exists y,
  (forall b, b <> a -> holds b y) /\
  exists s c d x, reachable y s /\ c <> d /\ has_lock y s c x /\ has_lock y s d x.
Proof.
  intros a. exists (without (Some a)). split; [intros b; apply others_hold |].
  destruct (two_hold_is_so _ _ (every_story_ends_with_two a)) as (s & reached & has_a & has_b).
  exists s, A, B, lock. repeat split; try apply has_a; try apply has_b; try assumption. discriminate.
Qed.

(* ---- and with all of them, clients get the lock ------------------------------------------------- *)

(* A takes the lock by two of three servers, sets its key at the third, extends it there, outlives its
   first TTL by that, and releases. Then B takes it. *)
Definition taking_turns : list event :=
  let t := 600 * ms in
  takes A 0 node_0 node_1 ++
  [Repairs A second; at_own node_2 (set_of A 0 second);
   Time_passes t; Begins_extension A second;
   at_own node_1 (extend_of A t second); at_own node_2 (extend_of A t second);
   Extended A t second (t + validity);
   Time_passes t].
Definition handing_over : list event :=
  [Releases A; at_own node_1 (delete_of A)] ++ [Ends node_0 lock] ++ takes B (1200 * ms) node_0 node_1.

Definition ends_with (events : list event) (c : attempt) : bool :=
  match run (without None) initial events with Some s => has_lock_b (without None) s c | None => false end.

Example clients_take_turns :
  (forall b, holds b (without None)) /\
  ends_with taking_turns A = true /\ ends_with (taking_turns ++ handing_over) B = true.
Proof. split; [exact all_hold |]. split; vm_compute; reflexivity. Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

Definition kind (e : event) : nat :=
  match e with
  | Time_passes _ => 0 | Begins _ _ => 1 | Arrives _ _ _ => 2 | Ends _ _ => 3 | Loses _ _ => 4 | Wins _ _ => 5
  | Begins_extension _ _ => 6 | Extended _ _ _ _ => 7 | Repairs _ _ => 8 | Cuts _ _ => 9 | Releases _ => 10
  end.
Definition is_loss (e : event) : bool := match e with Loses _ _ => true | _ => false end.

(* With all assumptions, every step but a loss; and that one without Keys_are_kept. *)
Theorem every_step_occurs : exists y y' events s s',
  (forall a, holds a y) /\ run y initial events = Some s /\ all_occur kind is_loss events /\
  (forall a, a <> Keys_are_kept -> holds a y') /\ run y' initial (events ++ [Loses node_0 lock]) = Some s'.
Proof.
  set (events := taking_turns ++ handing_over ++ [Cuts B 0]).
  destruct (can_run_to (step (without None)) initial events) as [s ran]; [vm_compute; reflexivity |].
  destruct (can_run_to (step (without (Some Keys_are_kept))) initial (events ++ [Loses node_0 lock])) as [s' ran'];
    [vm_compute; reflexivity |].
  exists (without None), (without (Some Keys_are_kept)), events, s, s'.
  split; [exact all_hold |]. split; [assumption |]. split; [all_occur |]. split; [apply others_hold | assumption].
Qed.
