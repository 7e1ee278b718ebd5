(* SPDX-License-Identifier: BSD-2-Clause

   Shared locks in classic mode: the system (docs/use/shared.md).

   A writer holds the key as the client of any ordinary lock does. A reader has a place in a list that
   belongs to the key, and the key holds the marker. Clocks, lists of nodes, settings and their
   assumptions are those of Classic.v, and so is what may happen to a request: it may arrive late, in
   any order, often or never. The rules of ordinary locks that Classic.v can drop (compare and extend,
   compare and delete, a reading of the clock before anything is sent, and others) are followed here.

   There is one resource. A reader's lock has no other. A writer's may have several, and then a node that
   has another one of them refuses: for this resource it is as if the request had not arrived. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic.
Import ListNotations.
Open Scope Z_scope.

Inductive mode := Writes | Reads.

Record system := {
  base : Classic.system;           (* clocks, lists, settings *)
  begins_as : attempt -> mode;     (* Reads: an attempt with the option `shared` *)
  (* The rules that SharedRuns.v drops. *)
  writer_respects_marker : bool;   (* SET NX, whatever the key holds *)
  reader_respects_writer : bool;   (* a reader joins the marker only, not a writer's token *)
  key_outlives_readers : bool;     (* the key ends with the last of its readers, not with the one that asked last *)
  leaver_spares_others : bool;     (* a reader that leaves deletes the key only if nobody else is listed *)
  extend_needs_place : bool;       (* a reader that is not listed is not extended *)
  downgrade_compares : bool;       (* the marker takes the place of the own token alone *)
  downgrade_is_final : bool;       (* from the call on the client is a reader, whatever nodes answer *)
  readers_need_majority : bool;    (* one node is not enough for a reader either *)
}.

(* ---- states ------------------------------------------------------------------------------------ *)

(* A token is its attempt: no two have the same (Tokens_are_unique). *)
Inductive key :=
| Token (owner : attempt) (ends : time)
| Marker (ends : time).

(* What a server keeps for the resource: the key, and the list of readers, each with its end by the
   server's clock. The list is there on its own, and may outlive the key: then it means nothing. *)
Record shelf := { held : option key; places : list (attempt * time) }.

Inductive action :=
| Set_ | Extend | Delete                       (* a writer's: as in Classic.v *)
| Share | Share_extend | Share_release.        (* a reader's: src/node/share*.lua *)

Record request := { what : action; by_ : attempt; began : time; ttl : Z }.
Record vote := { voter : node; answered : request }.

Inductive phase :=
| Idle
| Trying (began : time) (ttl : Z)
| Holding (m : mode) (until : time)
| Over.

Record state := {
  now : time;
  shelf_of : server -> shelf;
  phase_of : attempt -> phase;
  sent : list request;
  votes : list vote;
}.

Definition initial : state :=
  {| now := 0; shelf_of := fun _ => {| held := None; places := [] |}; phase_of := fun _ => Idle; sent := []; votes := [] |}.

(* The client of this attempt is inside the validity of its lock, and writes or reads. *)
Definition has_lock (y : system) (s : state) (c : attempt) (m : mode) : Prop :=
  exists until, phase_of s c = Holding m until /\ client_clock (base y) c (now s) < until.

(* ---- the list of readers ----------------------------------------------------------------------- *)

Definition is_of (c : attempt) (p : attempt * time) : bool := (fst p =? c)%nat.
Arguments is_of : simpl never.
Definition place_of (c : attempt) (l : list (attempt * time)) : option time := option_map snd (find (is_of c) l).
Definition without_ (c : attempt) (l : list (attempt * time)) := filter (fun p : attempt * time => negb (is_of c p)) l.
Definition put (c : attempt) (e : time) (l : list (attempt * time)) := (c, e) :: without_ c l.  (* ZADD *)
Definition living (clock : time) (l : list (attempt * time)) := filter (fun p : attempt * time => clock <? snd p) l.

(* The last end of a list. *)
Fixpoint last_end (l : list (attempt * time)) : option time :=
  match l with
  | [] => None
  | p :: l => match last_end l with Some e => Some (Z.max (snd p) e) | None => Some (snd p) end
  end.

(* ---- servers ----------------------------------------------------------------------------------- *)

(* The key's end after a reader, whose own end is `mine`, joined or extended. *)
Definition key_end (y : system) (e mine : time) (l : list (attempt * time)) : time :=
  if key_outlives_readers y then match last_end l with Some last => Z.max e last | None => e end else mine.

(* Nobody is missing in the list: the key ends no later than the last reader that is listed. *)
Definition lists_all (e : time) (l : list (attempt * time)) : bool :=
  match last_end l with Some last => e <=? last | None => false end.

(* share.lua *)
Definition share (y : system) (clock : time) (r : request) (h : shelf) : shelf * bool :=
  let c := by_ r in
  match held h with
  | None => ({| held := Some (Marker (clock + ttl r)); places := [(c, clock + ttl r)] |}, true)
  | Some (Token o e) =>
      if reader_respects_writer y then (h, false)
      else ({| held := held h; places := put c (clock + ttl r) (places h) |}, true)
  | Some (Marker e) =>
      let joined mine :=
        let l := living clock (put c mine (places h)) in
        ({| held := Some (Marker (key_end y e mine l)); places := l |}, true) in
      match place_of c (places h) with
      | Some before => joined (Z.max before (clock + ttl r))
      | None => if lists_all e (places h) then joined (clock + ttl r) else (h, false)
      end
  end.

(* share_extend.lua. Where the key holds the reader's own token, it was a writer: the downgrade. *)
Definition share_extend (y : system) (clock : time) (r : request) (h : shelf) : shelf * bool :=
  let c := by_ r in
  match held h with
  | None => (h, false)
  | Some (Token o e) =>
      if negb (downgrade_compares y) || (o =? c)%nat
      then let left := Z.max e (clock + ttl r) in ({| held := Some (Marker left); places := [(c, left)] |}, true)
      else (h, false)
  | Some (Marker e) =>
      match place_of c (places h) with
      | Some before =>
          if clock <? before then
            let mine := Z.max before (clock + ttl r) in
            let l := living clock (put c mine (places h)) in
            ({| held := Some (Marker (key_end y e mine l)); places := l |}, true)
          else (h, false)
      | None => (h, negb (extend_needs_place y))
      end
  end.

(* share_release.lua. The key lives as long as the last of those that remain. *)
Definition share_release (y : system) (clock : time) (r : request) (h : shelf) : shelf :=
  let c := by_ r in
  match held h with
  | None => h
  | Some (Token o e) => if (o =? c)%nat then {| held := None; places := places h |} else h
  | Some (Marker e) =>
      if negb (leaver_spares_others y) then {| held := None; places := [] |} else
      match places h, place_of c (places h) with
      | [_], Some _ => {| held := None; places := [] |}
      | _, _ =>
          let l := living clock (places h) in
          match place_of c l with
          | None => {| held := held h; places := l |}
          | Some _ =>
              {| held := match last_end (without_ c l) with Some last => Some (Marker last) | None => None end;
                 places := without_ c l |}
          end
      end
  end.

(* What a server does with a request, at a reading of its clock, and whether it granted. *)
Definition serve (y : system) (clock : time) (r : request) (h : shelf) : shelf * bool :=
  let c := by_ r in
  match what r with
  | Set_ =>
      match held h with
      | None => ({| held := Some (Token c (clock + ttl r)); places := places h |}, true)
      | Some (Marker _) =>
          if writer_respects_marker y then (h, false)
          else ({| held := Some (Token c (clock + ttl r)); places := places h |}, true)
      | Some (Token _ _) => (h, false)
      end
  | Extend =>
      match held h with
      | Some (Token o e) =>
          if (o =? c)%nat then ({| held := Some (Token c (Z.max e (clock + ttl r))); places := places h |}, true)
          else (h, false)
      | _ => (h, false)
      end
  | Delete =>
      match held h with
      | Some (Token o e) => (if (o =? c)%nat then {| held := None; places := places h |} else h, false)
      | _ => (h, false)
      end
  | Share => share y clock r h
  | Share_extend => share_extend y clock r h
  | Share_release => (share_release y clock r h, false)
  end.

(* ---- clients ----------------------------------------------------------------------------------- *)

Definition action_dec : forall a b : action, {a = b} + {a <> b}.
Proof. decide equality. Defined.
Definition request_dec : forall a b : request, {a = b} + {a <> b}.
Proof. decide equality; auto using Z.eq_dec, Nat.eq_dec, action_dec. Defined.

Definition ask a c t ttl := {| what := a; by_ := c; began := t; ttl := ttl |}.

Definition voters (y : system) (s : state) (r : request) : list node :=
  filter (fun n => existsb (fun v => (voter v =? n)%nat && (steady (base y) (by_ r) n && if request_dec (answered v) r then true else false)) (votes s))
    (list_of (base y) (by_ r)).

Definition reads (m : mode) : bool := match m with Reads => true | Writes => false end.

Definition needed (y : system) (r : request) : nat :=
  if negb (readers_need_majority y) && reads (begins_as y (by_ r)) then 1%nat
  else quorum (base y) (length (list_of (base y) (by_ r))).

Definition majority (y : system) (s : state) (r : request) : bool := (needed y r <=? length (voters y s r))%nat.

Definition validity_end (y : system) (r : request) : time :=
  client_clock (base y) (by_ r) (began r) + ttl r - drift_of (drift_ppm (base y) (by_ r)) (drift_fixed (base y)) (ttl r).

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive event :=
| Time_passes (span : Z)
| Begins (c : attempt) (ttl : Z)
| Arrives (n : node) (m : server) (r : request)
| Ends (m : server)                                  (* the key has ended, and is removed *)
| Place_ends (m : server) (c : attempt)              (* this place has ended, and is removed *)
| Loses (m : server)
| Wins (c : attempt) (until : time)
| Begins_extension (c : attempt) (ttl : Z)
| Extended (c : attempt) (began : time) (ttl : Z) (until : time)
| Repairs (c : attempt) (ttl : Z)                    (* SET NX, or SHARE, again, where the key is absent *)
| Downgrades (c : attempt) (ttl : Z)
| Cuts (c : attempt) (until : time)
| Releases (c : attempt).

Definition with_now s t :=
  {| now := t; shelf_of := shelf_of s; phase_of := phase_of s; sent := sent s; votes := votes s |}.
Definition with_shelf s m h :=
  {| now := now s; shelf_of := update (shelf_of s) m h; phase_of := phase_of s; sent := sent s; votes := votes s |}.
Definition with_phase s c p :=
  {| now := now s; shelf_of := shelf_of s; phase_of := update (phase_of s) c p; sent := sent s; votes := votes s |}.
Definition with_sent s r :=
  {| now := now s; shelf_of := shelf_of s; phase_of := phase_of s; sent := r :: sent s; votes := votes s |}.
Definition with_vote s v :=
  {| now := now s; shelf_of := shelf_of s; phase_of := phase_of s; sent := sent s; votes := v :: votes s |}.

Definition first_of (y : system) (c : attempt) : action := if reads (begins_as y c) then Share else Set_.

(* Both extensions may count for a reader: it may have been a writer when it sent the former. *)
Definition extended (y : system) (s : state) (c : attempt) (m : mode) (t : time) (ttl : Z) : bool :=
  majority y s (ask Extend c t ttl) || (reads m && majority y s (ask Share_extend c t ttl)).

(* None: this cannot happen now. *)
Definition step (y : system) (s : state) (e : event) : option state :=
  match e with
  | Time_passes span => if 0 <=? span then Some (with_now s (now s + span)) else None
  | Begins c ttl =>
      match phase_of s c with
      | Idle => Some (with_sent (with_phase s c (Trying (now s) ttl)) (ask (first_of y c) c (now s) ttl))
      | _ => None
      end
  | Arrives n m r =>
      if reaches (base y) n m && (if in_dec request_dec r (sent s) then true else false) then
        let (h, granted) := serve y (server_clock (base y) m (now s)) r (shelf_of s m) in
        let s' := with_shelf s m h in
        Some (if granted then with_vote s' {| voter := n; answered := r |} else s')
      else None
  | Ends m =>
      match held (shelf_of s m) with
      | Some (Token _ e) | Some (Marker e) =>
          if e <=? server_clock (base y) m (now s)
          then Some (with_shelf s m {| held := None; places := places (shelf_of s m) |}) else None
      | None => None
      end
  | Place_ends m c =>
      match place_of c (places (shelf_of s m)) with
      | Some e => if e <=? server_clock (base y) m (now s)
                  then Some (with_shelf s m {| held := held (shelf_of s m); places := without_ c (places (shelf_of s m)) |})
                  else None
      | None => None
      end
  | Loses m => if keeps_data (base y) then None else Some (with_shelf s m {| held := None; places := [] |})
  | Wins c until =>
      match phase_of s c with
      | Trying t ttl =>
          let r := ask (first_of y c) c t ttl in
          if majority y s r && (until <=? validity_end y r)
          then Some (with_phase s c (Holding (begins_as y c) until)) else None
      | _ => None
      end
  | Begins_extension c ttl =>
      match phase_of s c with
      | Holding m _ => Some (with_sent s (ask (if reads m then Share_extend else Extend) c (now s) ttl))
      | _ => None
      end
  | Extended c t ttl until =>
      match phase_of s c with
      | Holding m old =>
          if extended y s c m t ttl && (t <=? now s) && (client_clock (base y) c (now s) <? old) &&
             (until <=? validity_end y (ask Extend c t ttl))
          then Some (with_phase s c (Holding m (Z.max old until))) else None
      | _ => None
      end
  | Repairs c ttl =>
      match phase_of s c with Holding m _ => Some (with_sent s (ask (if reads m then Share else Set_) c (now s) ttl)) | _ => None end
  | Downgrades c ttl =>
      match phase_of s c with
      | Holding Writes until =>
          Some (with_sent (if downgrade_is_final y then with_phase s c (Holding Reads until) else s)
                  (ask Share_extend c (now s) ttl))
      | _ => None
      end
  | Cuts c until =>
      match phase_of s c with
      | Holding m old => if until <=? old then Some (with_phase s c (Holding m until)) else None
      | _ => None
      end
  | Releases c => (* one of the two is sent: that of a writer, or that of a reader *)
      Some (with_sent (with_sent (with_phase s c Over) (ask Delete c (now s) 0)) (ask Share_release c (now s) 0))
  end.

Notation reachable y := (Runs.reachable initial (step y)).
Notation follows y := (Runs.follows (step y)).
Notation run y := (Runs.run (step y)).

(* ---- the rules ---------------------------------------------------------------------------------- *)

Inductive rule :=
| Writer_respects_marker | Reader_respects_writer | Key_outlives_readers | Leaver_spares_others
| Extend_needs_place | Downgrade_compares | Downgrade_is_final | Readers_need_majority.

Definition obeys (y : system) (r : rule) : bool :=
  match r with
  | Writer_respects_marker => writer_respects_marker y
  | Reader_respects_writer => reader_respects_writer y
  | Key_outlives_readers => key_outlives_readers y
  | Leaver_spares_others => leaver_spares_others y
  | Extend_needs_place => extend_needs_place y
  | Downgrade_compares => downgrade_compares y
  | Downgrade_is_final => downgrade_is_final y
  | Readers_need_majority => readers_need_majority y
  end.

Definition assumed_for_locks (y : system) : Prop := forall a, holds a (base y).
