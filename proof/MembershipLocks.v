(* SPDX-License-Identifier: BSD-2-Clause

   Locks while the list of members changes: the system.

   MembershipChosen.v proves that each epoch has one list, which comes from the one before by one change
   and is decided at a moment at which a majority of the epoch before has accepted it. That is one step
   here (Decides). Here are the clients, the switch of nodes to a new epoch, its settling, and nodes
   that lose their data.

   Keys, votes and time are those of Guarded.v, with these differences:
   - A node has one life after the other. Each loss begins a new one, with any keys and fences. The keys
     of former lives are remembered. (Guarded.v has former bodies that live on; here none does.)
   - A vote names the epoch of the node's record. A client knows it, because a request names the nonce.
   - Each resource has its own fence. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities.
Import ListNotations.
Open Scope Z_scope.

Definition time := Z.
Definition resource := nat.
Definition attempt := nat.
Definition agent := nat.

(* The rules that MembershipLocksRuns.v drops, one at a time. *)
Inductive rule :=
| Changes_one            (* one member is added, or one is removed *)
| Settles_first          (* a change begins when the epoch is settled *)
| Gathers_enough         (* every majority of the epoch before includes a witness of the settling *)
| Witnesses_switched     (* a witness has switched when the wait begins *)
| Waits_to_settle        (* for ttl_max and drift *)
| Counts_members         (* a client counts votes of members only, *)
| Counts_majority        (* a majority of them, *)
| Counts_newest          (* by the list of the newest epoch that its voters carried *)
| Waits_after_loss       (* a node that lost its data waits for ttl_max and drift *)
| Recovers_by_majority   (* and then reads a majority *)
| Raises_floor.          (* settling raises the fences on a majority *)

Record wait := { waiter : agent; wait_from : nat; wait_to : nat }.

Record system := {
  first : list node;
  resource_of : attempt -> resource;
  time_at : nat -> time;                       (* the real time of a step *)
  client_clock : attempt -> time -> time;
  agent_clock : agent -> time -> time;         (* of those who wait: agents, and operators that settle *)
  server_clock : node -> nat -> time -> time;  (* of the server that is this life of the node *)
  client_ppm : Z; server_ppm : Z; agent_ppm : Z; client_error : Z; server_error : Z; agent_error : Z;
  drift_ppm : Z; drift_fixed : Z;
  ttl_max : Z;
  drops : rule -> bool;
}.

Definition unless (y : system) (r : rule) (b : bool) : bool := drops y r || b.

(* ---- states ------------------------------------------------------------------------------------ *)

Record key := { owner : attempt; ends : time (* by the server's clock *) }.

Inductive standing := Lost | Intact (epoch : nat).

Record node_state := {
  life : nat;
  stands : standing;
  born : nat -> nat;                           (* when each life began, which is when the one before ended *)
  waited : nat -> option wait;                 (* before it became intact *)
  keys : nat -> resource -> option key;        (* of each life *)
  fence : resource -> Z;
}.

Inductive purpose := Acquires (t : Z) | Renews.

Record vote := {
  voter : node;
  in_life : nat;
  at_epoch : nat;
  cast_at : nat;
  for_ : attempt;
  began : nat;                                 (* when the client read its clock for this round *)
  ttl : Z;
  why : purpose;
}.

(* What anybody has seen of an intact node: its record and its fences, before and after what the node did. *)
Record seen := { of_node : node; seen_life : nat; seen_epoch : nat; seen_at : nat;
                 before : resource -> Z; fences : resource -> Z }.

Inductive phase := Idle | Trying (began : nat) (ttl : Z) | Holding (until : time) | Over.

(* Settling an epoch: the witnesses carried it all the time of the wait. *)
Record gathering := { witnesses : list node; by_wait : wait; gathered_at : nat; floor : resource -> Z }.

(* A lock that was acquired. *)
Record grant := {
  winner : attempt;
  token : Z;
  grant_began : nat;
  won_at : nat;
  won_epoch : nat;                             (* by the list of this epoch *)
  won_ttl : Z;
  won_by : list vote;
}.

Record state := {
  now : nat;
  newest : nat;
  list_of : nat -> list node;                  (* of each epoch up to the newest *)
  settled : nat -> bool;
  gathered : nat -> option gathering;
  raised : list (node * nat * nat);            (* the node's fences were raised to settle this epoch, at this moment *)
  nodes : node -> node_state;
  votes : list vote;
  reads : list seen;
  sets : list (node * nat * attempt * nat * Z); (* a SET was granted by this life, in the round that began then *)
  phase_of : attempt -> phase;
  grants : list grant;
}.

Definition initial (y : system) : state := {|
  now := 1;
  newest := 0;
  list_of := fun e => match e with O => first y | _ => [] end;
  settled := fun e => match e with O => true | _ => false end;
  gathered := fun _ => None;
  raised := [];
  nodes := fun n => {| life := 0; stands := if among (first y) n then Intact 0 else Lost; born := fun _ => 0%nat;
                       waited := fun _ => None; keys := fun _ _ => None; fence := fun _ => 0 |};
  votes := [];
  reads := [];
  sets := [];
  phase_of := fun _ => Idle;
  grants := [];
|}.

Definition real (y : system) (s : state) : time := time_at y (now s).

(* ---- changing a state -------------------------------------------------------------------------- *)

Definition with_node s n a := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := update (nodes s) n a; votes := votes s; reads := reads s;
  sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_vote s v := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := nodes s; votes := v :: votes s; reads := reads s;
  sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_reads s l := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := nodes s; votes := votes s; reads := l ++ reads s;
  sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_set s f := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := nodes s; votes := votes s; reads := reads s;
  sets := f :: sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_phase s c p := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := nodes s; votes := votes s; reads := reads s;
  sets := sets s; phase_of := update (phase_of s) c p; grants := grants s |}.
Definition with_grant s g := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := nodes s; votes := votes s; reads := reads s;
  sets := sets s; phase_of := phase_of s; grants := g :: grants s |}.
Definition with_epoch s l := {| now := now s; newest := S (newest s); list_of := update (list_of s) (S (newest s)) l;
  settled := settled s; gathered := gathered s; raised := raised s; nodes := nodes s; votes := votes s;
  reads := reads s; sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_gathering s e g := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := update (gathered s) e (Some g); raised := raised s; nodes := nodes s; votes := votes s;
  reads := reads s; sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_raised s r := {| now := now s; newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := r :: raised s; nodes := nodes s; votes := votes s; reads := reads s;
  sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_settled s e := {| now := now s; newest := newest s; list_of := list_of s;
  settled := update (settled s) e true; gathered := gathered s; raised := raised s; nodes := nodes s;
  votes := votes s; reads := reads s; sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition next s := {| now := S (now s); newest := newest s; list_of := list_of s; settled := settled s;
  gathered := gathered s; raised := raised s; nodes := nodes s; votes := votes s; reads := reads s;
  sets := sets s; phase_of := phase_of s; grants := grants s |}.

(* What a node does within a life. *)
Definition with_key a x k := {| life := life a; stands := stands a; born := born a; waited := waited a;
  keys := update (keys a) (life a) (update (keys a (life a)) x k); fence := fence a |}.
Definition with_fence a f := {| life := life a; stands := stands a; born := born a; waited := waited a;
  keys := keys a; fence := f |}.
Definition with_stand a e := {| life := life a; stands := Intact e; born := born a; waited := waited a;
  keys := keys a; fence := fence a |}.
(* A new life, and its end as one that is lost. *)
Definition with_life a at_ held f := {| life := S (life a); stands := Lost; born := update (born a) (S (life a)) at_;
  waited := waited a; keys := update (keys a) (S (life a)) held; fence := f |}.
Definition with_install a w e f := {| life := life a; stands := Intact e; born := born a;
  waited := update (waited a) (life a) (Some w); keys := keys a; fence := f |}.

Definition has_key (a : node_state) (x : resource) : option key := keys a (life a) x.
Definition bumped (f : resource -> Z) (x : resource) (t : Z) : resource -> Z := update f x (Z.max (f x) t).
Definition highest (own : resource -> Z) (l : list (resource -> Z)) : resource -> Z :=
  fun x => fold_right (fun f z => Z.max (f x) z) (own x) l.

(* The node answers, and its fences are `after` then. *)
Definition observe (s : state) (n : node) (e : nat) (after : resource -> Z) : seen :=
  {| of_node := n; seen_life := life (nodes s n); seen_epoch := e; seen_at := now s; before := fence (nodes s n); fences := after |}.

(* ---- what counts ------------------------------------------------------------------------------- *)

Definition drift (y : system) (span : Z) : Z := drift_of (drift_ppm y) (drift_fixed y) span.
Definition validity_end (y : system) (c : attempt) (began : nat) (ttl : Z) : time :=
  client_clock y c (time_at y began) + ttl - drift y ttl.

(* The wait by the waiter's clock, less the error of two readings. *)
Definition is_long_enough (y : system) (w : wait) : bool :=
  ttl_max y + drift y (ttl_max y) <=?
  agent_clock y (waiter w) (time_at y (wait_to w)) - agent_clock y (waiter w) (time_at y (wait_from w)) - agent_error y.

(* So many members of a list that every majority of it includes one: half of an even number, a majority
   of an odd one. *)
Definition hits_majorities (held l : list node) : bool :=
  all_differ held && forallb (among l) held && (length l <? length held + majority_of (length l))%nat.

(* Votes that win by the list of epoch e. A client that has met a later epoch counts by that one, and
   counts no vote of a node that is behind or not a member. A vote may be from before the node switched. *)
Definition counts (y : system) (s : state) (e : nat) (l : list vote) : bool :=
  (e <=? newest s)%nat && all_differ (map voter l) &&
  unless y Counts_members (forallb (fun v => among (list_of s e) (voter v)) l) &&
  unless y Counts_majority (majority_of (length (list_of s e)) <=? length l)%nat &&
  unless y Counts_newest (forallb (fun v => at_epoch v <=? e)%nat l).

Definition is_acquisition (c : attempt) (began_ : nat) (ttl_ t : Z) (v : vote) : bool :=
  (for_ v =? c)%nat && (began v =? began_)%nat && (ttl v =? ttl_) && match why v with Acquires t' => t' =? t | Renews => false end.
Definition is_renewal (c : attempt) (began_ : nat) (ttl_ : Z) (v : vote) : bool :=
  (for_ v =? c)%nat && (began v =? began_)%nat && (ttl v =? ttl_) && match why v with Acquires _ => false | Renews => true end.

Definition pick {A : Type} (l : list A) (places : list nat) : option (list A) := all_some (map (nth_error l) places).
Definition is_one_change (l l' : list node) : bool :=
  match filter (fun n => negb (among l n)) l', filter (fun n => negb (among l' n)) l with
  | [n], [] => if list_eq_dec Nat.eq_dec l' (l ++ [n]) then true else false
  | [], [n] => if list_eq_dec Nat.eq_dec l' (filter (fun m => negb (m =? n)%nat) l) then true else false
  | [], [] => if list_eq_dec Nat.eq_dec l' l then true else false
  | _, _ => false
  end.

(* A SET of this round was granted in this life, or the key is old data: then this life began later. *)
Definition may_have_key (s : state) (n : node) (c : attempt) (began_ : nat) (ttl_ : Z) : bool :=
  let a := nodes s n in
  existsb (fun f => match f with (n', l', c', b', t') =>
    (n' =? n)%nat && (l' =? life a)%nat && (c' =? c)%nat && (b' =? began_)%nat && (t' =? ttl_) end) (sets s) ||
  (0 <? life a)%nat && (began_ <=? born a (life a))%nat.

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive event :=
| Passes
| Begins (c : attempt) (ttl : Z)
| Sets (n : node) (c : attempt) (began : nat) (ttl : Z)       (* SET NX PX; also a repair *)
| Votes (n : node) (c : attempt) (began : nat) (ttl t : Z)    (* ZADD XX GT, or the raise *)
| Extends (n : node) (c : attempt) (began : nat) (ttl t : Z)
| Bumps (n : node) (x : resource) (t : Z)                     (* a fence is raised by anybody else *)
| Deletes (n : node) (c : attempt)
| Ends (n : node) (x : resource)
| Loses (n : node) (held : resource -> option key) (f : resource -> Z)
| Reads (n : node)
| Installs (n : node) (places : list nat) (w : wait)
| Decides (l held : list node)                                (* the list of the next epoch *)
| Switches (n : node) (e : nat)                               (* by anybody *)
| Gathers (places : list nat) (w : wait)                      (* to settle the newest epoch *)
| Raises (n : node)                                           (* the fences, to settle the newest epoch *)
| Marks (held : list node)                                    (* the newest epoch as settled *)
| Wins (c : attempt) (t : Z) (e : nat) (places : list nat) (until : time)
| Extended (c : attempt) (began : nat) (ttl : Z) (e : nat) (places : list nat) (until : time)
| Cuts (c : attempt) (until : time)
| Releases (c : attempt).

Definition act (y : system) (s : state) (ev : event) : option state :=
  match ev with
  | Passes => Some s
  | Begins c ttl =>
      match phase_of s c with
      | Idle => Some (with_phase s c (Trying (now s) ttl))
      | _ => None
      end
  | Sets n c began ttl =>
      let a := nodes s n in
      match has_key a (resource_of y c), phase_of s c with
      | Some _, _ | _, Idle => None
      | None, _ =>
          when (began <=? now s)%nat
            (with_set (with_node s n (with_key a (resource_of y c)
               (Some {| owner := c; ends := server_clock y n (life a) (real y s) + ttl |})))
               (n, life a, c, began, ttl))
      end
  | Votes n c began ttl t =>
      let a := nodes s n in
      match stands a, phase_of s c with
      | Lost, _ | _, Idle => None
      | Intact e, _ =>
          when ((began <=? now s)%nat && (fence a (resource_of y c) <? t) && may_have_key s n c began ttl)
            (with_vote (with_reads (with_node s n (with_fence a (bumped (fence a) (resource_of y c) t)))
                                   [observe s n e (bumped (fence a) (resource_of y c) t)])
               {| voter := n; in_life := life a; at_epoch := e; cast_at := now s; for_ := c; began := began;
                  ttl := ttl; why := Acquires t |})
      end
  | Extends n c began ttl t =>
      let a := nodes s n in
      match stands a, has_key a (resource_of y c) with
      | Intact e, Some k =>
          when ((owner k =? c)%nat && (began <=? now s)%nat)
            (with_vote (with_node s n (with_fence
               (with_key a (resource_of y c)
                  (Some {| owner := c; ends := Z.max (ends k) (server_clock y n (life a) (real y s) + ttl) |}))
               (bumped (fence a) (resource_of y c) t)))
               {| voter := n; in_life := life a; at_epoch := e; cast_at := now s; for_ := c; began := began;
                  ttl := ttl; why := Renews |})
      | _, _ => None
      end
  | Bumps n x t => Some (with_node s n (with_fence (nodes s n) (bumped (fence (nodes s n)) x t)))
  | Deletes n c =>
      match phase_of s c, has_key (nodes s n) (resource_of y c) with
      | Over, Some k => when (owner k =? c)%nat (with_node s n (with_key (nodes s n) (resource_of y c) None))
      | _, _ => None
      end
  | Ends n x =>
      match has_key (nodes s n) x with
      | Some k => when (ends k <=? server_clock y n (life (nodes s n)) (real y s)) (with_node s n (with_key (nodes s n) x None))
      | None => None
      end
  | Loses n held f => Some (with_node s n (with_life (nodes s n) (now s) held f))
  | Reads n =>
      let a := nodes s n in
      match stands a with
      | Intact e => Some (with_reads s [observe s n e (fence a)])
      | Lost => None
      end
  | Installs n places w =>
      let a := nodes s n in
      match stands a, pick (reads s) places with
      | Lost, Some ((o :: _) as l) =>
          let e := seen_epoch o in
          when (forallb (fun o => seen_epoch o =? e)%nat l && among (list_of s e) n &&
                unless y Recovers_by_majority (is_majority (map of_node l) (list_of s e)) &&
                (born a (life a) <=? wait_from w)%nat && (wait_from w <=? wait_to w)%nat &&
                forallb (fun o => born a (life a) <? seen_at o)%nat l &&
                unless y Waits_after_loss (is_long_enough y w && forallb (fun o => wait_to w <=? seen_at o)%nat l))
            (with_node s n (with_install a w e (highest (fence a) (map fences l))))
      | _, _ => None
      end
  | Decides l held =>
      when (unless y Changes_one (is_one_change (list_of s (newest s)) l) && all_differ l &&
            unless y Settles_first (settled s (newest s)) &&
            is_majority held (list_of s (newest s)) &&
            forallb (fun n => match stands (nodes s n) with Intact e => e =? newest s | Lost => false end)%nat held)
        (with_epoch s l)
  | Switches n e =>
      match stands (nodes s n) with
      | Intact old => when ((old <? e)%nat && (e <=? newest s)%nat) (with_node s n (with_stand (nodes s n) e))
      | Lost => None
      end
  | Gathers places w =>
      match newest s, pick (reads s) places with
      | S before, Some l =>
          let held := map of_node l in
          when (unless y Gathers_enough (hits_majorities held (list_of s before)) &&
                (wait_from w <=? wait_to w)%nat && (wait_to w <=? now s)%nat &&
                unless y Waits_to_settle (is_long_enough y w) &&
                forallb (fun o => (seen_at o <=? wait_from w)%nat &&
                  (seen_life o =? life (nodes s (of_node o)))%nat &&
                  unless y Witnesses_switched (newest s <=? seen_epoch o)%nat) l &&
                forallb (fun n => match stands (nodes s n) with Intact e => newest s <=? e | Lost => false end)%nat held)
            (with_gathering (with_reads s (flat_map (fun n => match stands (nodes s n) with
                                                              | Intact e => [observe s n e (fence (nodes s n))]
                                                              | Lost => []
                                                              end) held)) (newest s)
               {| witnesses := held; by_wait := w; gathered_at := now s;
                  floor := highest (fun _ => 0) (map (fun n => fence (nodes s n)) held) |})
      | _, _ => None
      end
  | Raises n =>
      let a := nodes s n in
      match stands a, gathered s (newest s) with
      | Intact e, Some g =>
          when (e =? newest s)%nat
            (with_raised (with_reads (with_node s n (with_fence a (highest (fence a) [floor g])))
                                     [observe s n e (highest (fence a) [floor g])]) (n, newest s, now s))
      | _, _ => None
      end
  | Marks held =>
      match gathered s (newest s) with
      | Some g =>
          when (is_majority held (list_of s (newest s)) &&
                unless y Raises_floor (forallb (fun n => existsb (fun r => match r with (n', e, _) =>
                  (n' =? n)%nat && (e =? newest s)%nat end) (raised s)) held))
            (with_settled s (newest s))
      | None => None
      end
  | Wins c t e places until =>
      match phase_of s c, pick (votes s) places with
      | Trying began ttl, Some l =>
          when (counts y s e l && forallb (is_acquisition c began ttl t) l && (ttl <=? ttl_max y) &&
                (client_clock y c (real y s) <? validity_end y c began ttl) && (until <=? validity_end y c began ttl))
            (with_grant (with_phase s c (Holding until))
               {| winner := c; token := t; grant_began := began; won_at := now s; won_epoch := e; won_ttl := ttl; won_by := l |})
      | _, _ => None
      end
  | Extended c began ttl e places until =>
      match phase_of s c, pick (votes s) places with
      | Holding old, Some l =>
          when (counts y s e l && forallb (is_renewal c began ttl) l && (ttl <=? ttl_max y) &&
                (client_clock y c (real y s) <? old) && (until <=? validity_end y c began ttl))
            (with_phase s c (Holding (Z.max old until)))
      | _, _ => None
      end
  | Cuts c until =>
      match phase_of s c with
      | Holding old => when (until <=? old) (with_phase s c (Holding until))
      | _ => None
      end
  | Releases c => Some (with_phase s c Over)
  end.

Definition step (y : system) (s : state) (ev : event) : option state :=
  match act y s ev with Some s' => Some (next s') | None => None end.

Notation reachable y := (Runs.reachable (initial y) (step y)).
Notation run y := (Runs.run (step y)).

Definition inside (y : system) (s : state) (c : attempt) : bool :=
  match phase_of s c with Holding until => client_clock y c (real y s) <? until | _ => false end.

(* The client of this attempt is inside the validity of a lock on this resource. *)
Definition has_lock (y : system) (s : state) (c : attempt) (x : resource) : Prop :=
  inside y s c = true /\ resource_of y c = x.
