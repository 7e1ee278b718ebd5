(* SPDX-License-Identifier: BSD-2-Clause

   Slots: at most K clients at a time (docs/use/slots.md).

   Slot k of a resource is the ordinary lock on a key of its own. What is special is how it is taken:
   one script takes any slot that is free (src/node/acquire_slot.lua), the client settles on one slot
   (src/core/slots.c), and asks other nodes to move to it. So this system has one resource, its slots
   as keys, and that script. Clocks, lists of nodes, settings and their assumptions are those of
   Classic.v, and so is what may happen to a request: it may arrive late, in any order, often or never.
   The rules of ordinary locks (SET NX, compare and extend, compare and delete, a reading of the clock
   before anything is sent) are followed here; ClassicNeeds.v shows what each of them is for.
   Fences are left out: in classic mode there are none. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic.
Import ListNotations.
Open Scope Z_scope.

Definition slot := nat. (* from 1 on *)

(* The most slots that a resource can have: NODE_SLOTS_MAX. *)
Definition slots_max : nat := 64.

Record system := {
  base : Classic.system;               (* clocks, lists, settings *)
  number_of : attempt -> option nat;   (* K, as the token carries it. None: an ordinary lock, of a
                                          client that knows no slots, on the key of one *)
  order_of : attempt -> list slot;     (* in which the slots are tried *)
  (* The rules that SlotsNeeds.v drops. *)
  compares_numbers : bool;             (* a node that holds a slot with another K refuses *)
  counts_one_slot : bool;              (* votes for different slots are not added *)
  keeps_own_slot : bool;               (* a first request takes no other slot where one is ours already *)
  first_comes_first : bool;            (* it comes to a server once, before later requests of its attempt *)
}.

(* ---- states ------------------------------------------------------------------------------------ *)

(* A token is its attempt: no two have the same (Tokens_are_unique). *)
Record key := { owner : attempt; ends : time }.

Inductive action :=
| Choose             (* the first request: the first slot, in the order, that is free *)
| Take (k : slot)    (* the slot that counts, and leave any other: after settling, and as a repair *)
| Extend (k : slot)
| Leave (k : slot)   (* delete what is ours in all other slots *)
| Release.

Record request := { what : action; by_ : attempt; began : time; ttl : Z }.

(* What a vote says: this slot is held for the attempt, from a moment after `since` on, for `span`. Of
   an extension, `since` is when that round began, else when the attempt began. *)
Record claim := { of_ : attempt; place : slot; extends : bool; since : time; span : Z }.
Record vote := { voter : node; granted : claim }.

Inductive phase :=
| Idle
| Trying (began : time) (ttl : Z) (settled : option slot)
| Holding (k : slot) (until : time)
| Over.

Record state := {
  now : time;
  keys : server -> slot -> option key;
  seen : server -> attempt -> bool;    (* a request of this attempt has come to this server *)
  phase_of : attempt -> phase;
  sent : list request;
  votes : list vote;
}.

Definition initial : state :=
  {| now := 0; keys := fun _ _ => None; seen := fun _ _ => false; phase_of := fun _ => Idle; sent := []; votes := [] |}.

(* The client of this attempt is inside the validity of this slot. *)
Definition has_slot (y : system) (s : state) (c : attempt) (k : slot) : Prop :=
  exists until, phase_of s c = Holding k until /\ client_clock (base y) c (now s) < until.

(* ---- servers ----------------------------------------------------------------------------------- *)

Definition is_own (c : attempt) (k : option key) : bool :=
  match k with Some k => (owner k =? c)%nat | None => false end.
Definition is_free (k : option key) : bool := match k with Some _ => false | None => true end.

(* No slot is held with another K. The script looks at all that a resource can have. *)
Definition numbers_agree (y : system) (c : attempt) (held : slot -> option key) : bool :=
  match number_of y c with
  | None => true
  | Some number => forallb (fun k =>
      match held k with
      | Some key => match number_of y (owner key) with Some other => (other =? number)%nat | None => true end
      | None => true
      end) (seq 1 slots_max)
  end.

Definition first_slot (y : system) (c : attempt) (order : list slot) (held : slot -> option key) : option slot :=
  match (if keeps_own_slot y then find (fun k => is_own c (held k)) order else None) with
  | Some k => Some k
  | None => find (fun k => is_own c (held k) || is_free (held k)) order
  end.

(* acquire_slot.lua. A slot that is ours already keeps its end. *)
Definition take (y : system) (clock : time) (r : request) (order : list slot) (held : slot -> option key)
  : (slot -> option key) * option slot :=
  let c := by_ r in
  if compares_numbers y && negb (numbers_agree y c held) then (held, None) else
  let taken := first_slot y c order held in
  (fun j => if match taken with Some k => (j =? k)%nat | None => false end
            then if is_own c (held j) then held j else Some {| owner := c; ends := clock + ttl r |}
            else if is_own c (held j) then None else held j,
   taken).

Definition delete_but (c : attempt) (spared : option slot) (held : slot -> option key) : slot -> option key :=
  fun j => if is_own c (held j) && negb (match spared with Some k => (j =? k)%nat | None => false end)
           then None else held j.

(* The new keys, and the slot that was granted. *)
Definition serve (y : system) (clock : time) (r : request) (held : slot -> option key)
  : (slot -> option key) * option slot :=
  let c := by_ r in
  match what r with
  | Choose => take y clock r (order_of y c) held
  | Take k => take y clock r [k] held
  | Extend k =>
      match held k with
      | Some key => if (owner key =? c)%nat
                    then (update held k (Some {| owner := c; ends := Z.max (ends key) (clock + ttl r) |}), Some k)
                    else (held, None)
      | None => (held, None)
      end
  | Leave k => (delete_but c (Some k) held, None)
  | Release => (delete_but c None held, None)
  end.

(* ---- clients ----------------------------------------------------------------------------------- *)

Definition claim_dec : forall a b : claim, {a = b} + {a <> b}.
Proof. decide equality; auto using Z.eq_dec, Nat.eq_dec, bool_dec. Defined.
Definition request_dec : forall a b : request, {a = b} + {a <> b}.
Proof. decide equality; auto using Z.eq_dec, Nat.eq_dec. decide equality; auto using Nat.eq_dec. Defined.

Definition took c k t ttl := {| of_ := c; place := k; extends := false; since := t; span := ttl |}.
Definition prolonged c k t ttl := {| of_ := c; place := k; extends := true; since := t; span := ttl |}.

Definition counts (y : system) (q p : claim) : bool :=
  if counts_one_slot y then if claim_dec p q then true else false
  else (of_ p =? of_ q)%nat && eqb (extends p) (extends q) && (since p =? since q) && (span p =? span q).

Definition voters (y : system) (s : state) (q : claim) : list node :=
  filter (fun n => existsb (fun v => (voter v =? n)%nat && (steady (base y) (of_ q) n && counts y q (granted v))) (votes s)) (list_of (base y) (of_ q)).

Definition majority (y : system) (s : state) (q : claim) : bool :=
  (quorum (base y) (length (list_of (base y) (of_ q))) <=? length (voters y s q))%nat.

Definition validity_end (y : system) (q : claim) : time :=
  client_clock (base y) (of_ q) (since q) + span q - drift_of (drift_ppm (base y) (of_ q)) (drift_fixed (base y)) (span q).

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive event :=
| Time_passes (span : Z)
| Begins (c : attempt) (ttl : Z)
| Arrives (n : node) (m : server) (r : request)
| Ends (m : server) (k : slot)
| Loses (m : server) (k : slot)
| Settles (c : attempt) (k : slot)        (* on a slot; the nodes may be asked for it *)
| Leaves (c : attempt)                    (* deletes what may be ours of the other slots *)
| Wins (c : attempt) (until : time)
| Begins_extension (c : attempt) (ttl : Z)
| Extended (c : attempt) (began : time) (ttl : Z) (until : time)
| Repairs (c : attempt) (ttl : Z)
| Cuts (c : attempt) (until : time)
| Releases (c : attempt).

Definition with_now s t :=
  {| now := t; keys := keys s; seen := seen s; phase_of := phase_of s; sent := sent s; votes := votes s |}.
Definition with_keys s m held :=
  {| now := now s; keys := update (keys s) m held; seen := seen s; phase_of := phase_of s; sent := sent s; votes := votes s |}.
Definition with_seen s m c :=
  {| now := now s; keys := keys s; seen := update (seen s) m (update (seen s m) c true); phase_of := phase_of s;
     sent := sent s; votes := votes s |}.
Definition with_phase s c p :=
  {| now := now s; keys := keys s; seen := seen s; phase_of := update (phase_of s) c p; sent := sent s; votes := votes s |}.
Definition with_sent s r :=
  {| now := now s; keys := keys s; seen := seen s; phase_of := phase_of s; sent := r :: sent s; votes := votes s |}.
Definition with_vote s v :=
  {| now := now s; keys := keys s; seen := seen s; phase_of := phase_of s; sent := sent s; votes := v :: votes s |}.

Definition ask a c t ttl := {| what := a; by_ := c; began := t; ttl := ttl |}.

(* The slot on which the attempt settled. *)
Definition chosen (s : state) (c : attempt) : option slot :=
  match phase_of s c with Trying _ _ k => k | Holding k _ => Some k | _ => None end.

(* What the server's answer is a vote for. An answer to a first or second request that is given after
   the win decides nothing, and the answer to a repair neither. *)
Definition claim_of (s : state) (r : request) (k : slot) : option claim :=
  match what r, phase_of s (by_ r) with
  | Extend _, _ => Some (prolonged (by_ r) k (began r) (ttl r))
  | _, Trying t ttl _ => Some (took (by_ r) k t ttl)
  | _, _ => None
  end.

Definition may_arrive (y : system) (s : state) (m : server) (r : request) : bool :=
  match what r with Choose => negb (first_comes_first y) || negb (seen s m (by_ r)) | _ => true end.

(* None: this cannot happen now. *)
Definition step (y : system) (s : state) (e : event) : option state :=
  match e with
  | Time_passes span => if 0 <=? span then Some (with_now s (now s + span)) else None
  | Begins c ttl =>
      match phase_of s c with
      | Idle => Some (with_sent (with_phase s c (Trying (now s) ttl None)) (ask Choose c (now s) ttl))
      | _ => None
      end
  | Arrives n m r =>
      if reaches (base y) n m && (if in_dec request_dec r (sent s) then true else false) && may_arrive y s m r then
        let (held, taken) := serve y (server_clock (base y) m (now s)) r (keys s m) in
        let s' := with_seen (with_keys s m held) m (by_ r) in
        Some (match taken with
              | Some k => match claim_of s r k with
                          | Some q => with_vote s' {| voter := n; granted := q |}
                          | None => s'
                          end
              | None => s'
              end)
      else None
  | Ends m k =>
      match keys s m k with
      | Some key => if ends key <=? server_clock (base y) m (now s)
                    then Some (with_keys s m (update (keys s m) k None)) else None
      | None => None
      end
  | Loses m k => if keeps_data (base y) then None else Some (with_keys s m (update (keys s m) k None))
  | Settles c k =>
      match phase_of s c with
      | Trying t ttl None =>
          if among (order_of y c) k
          then Some (with_sent (with_phase s c (Trying t ttl (Some k))) (ask (Take k) c (now s) ttl)) else None
      | _ => None
      end
  | Leaves c =>
      match chosen s c with Some k => Some (with_sent s (ask (Leave k) c (now s) 0)) | None => None end
  | Wins c until =>
      match phase_of s c with
      | Trying t ttl (Some k) =>
          let q := took c k t ttl in
          if majority y s q && (until <=? validity_end y q) then Some (with_phase s c (Holding k until)) else None
      | _ => None
      end
  | Begins_extension c ttl =>
      match phase_of s c with Holding k _ => Some (with_sent s (ask (Extend k) c (now s) ttl)) | _ => None end
  | Extended c t ttl until =>
      match phase_of s c with
      | Holding k old =>
          let q := prolonged c k t ttl in
          if majority y s q && (t <=? now s) && (client_clock (base y) c (now s) <? old) && (until <=? validity_end y q)
          then Some (with_phase s c (Holding k (Z.max old until))) else None
      | _ => None
      end
  | Repairs c ttl =>
      match phase_of s c with Holding k _ => Some (with_sent s (ask (Take k) c (now s) ttl)) | _ => None end
  | Cuts c until =>
      match phase_of s c with
      | Holding k old => if until <=? old then Some (with_phase s c (Holding k until)) else None
      | _ => None
      end
  | Releases c => Some (with_sent (with_phase s c Over) (ask Release c (now s) 0))
  end.

Notation reachable y := (Runs.reachable initial (step y)).
Notation run y := (Runs.run (step y)).

(* ---- the rules ---------------------------------------------------------------------------------- *)

Inductive rule :=
| Compares_numbers
| Counts_one_slot
| First_moves_nothing. (* a first request that comes late does not move a slot that counts *)

Definition follows (r : rule) (y : system) : Prop :=
  match r with
  | Compares_numbers => compares_numbers y = true
  | Counts_one_slot => counts_one_slot y = true
  | First_moves_nothing => keeps_own_slot y = true \/ first_comes_first y = true
  end.

(* What the words mean: a client that was given K tries the slots 1 to K. *)
Definition orders_fit (y : system) : Prop := forall c k, In k (order_of y c) ->
  (1 <= k <= slots_max)%nat /\ forall number, number_of y c = Some number -> (k <= number)%nat.

Definition assumed_for_locks (y : system) : Prop := forall a, holds a (base y).
