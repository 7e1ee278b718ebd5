(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode with readers: the system. It is Guarded.v, and what readers add to it.

   The key of a resource holds a writer's token or the marker. In the keys of Guarded.v the marker is the
   token of an attempt that never does anything. The list of readers is next to the keys: for each body and
   resource. A server does with a reader's request what Shared.v says (the scripts share.lua,
   share_extend.lua and share_release.lua in classic and in guarded mode differ in the fence alone), and
   raises the fence to at least a number, in the same step. What it grants is a vote; it is written down
   like an extension, and not strict. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded.
From Redlock Require ClassicNeeds Shared.
Import ListNotations.
Open Scope Z_scope.

Definition marker : attempt := 9%nat.

(* A server that follows all rules of Shared.v. What a server does with a request depends on nothing else
   of such a system. *)
Definition server_rules : Shared.system := {|
  Shared.base := ClassicNeeds.without None; Shared.begins_as := fun _ => Shared.Reads;
  Shared.writer_respects_marker := true; Shared.reader_respects_writer := true;
  Shared.key_outlives_readers := true; Shared.leaver_spares_others := true; Shared.extend_needs_place := true;
  Shared.downgrade_compares := true; Shared.downgrade_is_final := true; Shared.readers_need_majority := true |}.

Record shared_system := {
  core : system;
  begins_as : attempt -> Shared.mode;
  first_lists : body -> resource -> list (attempt * time);  (* any: a new body may have old data *)
}.

Record shared_state := {
  of_core : state;
  lists : body -> resource -> list (attempt * time);
  downgraded : attempt -> bool;
}.

Definition shared_initial (y : shared_system) : shared_state :=
  {| of_core := initial (core y); lists := fun b => if is_first (core y) b then fun _ => [] else first_lists y b;
     downgraded := fun _ => false |}.

(* It is a writer, and was not downgraded. *)
Definition writes (y : shared_system) (s : shared_state) (c : attempt) : bool :=
  negb (Shared.reads (begins_as y c)) && negb (downgraded s c).

(* The key of a resource on a body, and its readers, as in Shared.v. *)
Definition as_held (k : key) : Shared.key :=
  if (owner k =? marker)%nat then Shared.Marker (ends k) else Shared.Token (owner k) (ends k).
Definition as_key (h : Shared.key) : key :=
  match h with
  | Shared.Marker e => {| owner := marker; ends := e |}
  | Shared.Token o e => {| owner := o; ends := e |}
  end.
Definition shelf_of (s : shared_state) (b : body) (x : resource) : Shared.shelf :=
  {| Shared.held := option_map as_held (keys (of_core s) b x); Shared.places := lists s b x |}.

Definition with_core (s : shared_state) (t : state) : shared_state :=
  {| of_core := t; lists := lists s; downgraded := downgraded s |}.
Definition with_list (s : shared_state) (b : body) (x : resource) (l : list (attempt * time)) : shared_state :=
  {| of_core := of_core s; lists := update (lists s) b (update (lists s b) x l); downgraded := downgraded s |}.

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive shared_event :=
| Of_core (e : event)                                                (* of Guarded.v *)
| Asks (b : body) (a : Shared.action) (c : attempt) (began : nat) (ttl t : Z)   (* a reader's request *)
| Leaves (b : body) (c : attempt)                                    (* its release *)
| Place_ends (b : body) (x : resource) (c : attempt)
| Reader_wins (c : attempt) (places : list nat) (until : time)
| Downgrades (c : attempt).

(* Nobody is the marker. Readers send no requests of writers. *)
Definition core_may (y : shared_system) (e : event) : bool :=
  let client c := negb (c =? marker)%nat in
  let writer c := client c && negb (Shared.reads (begins_as y c)) in
  match e with
  | Begins c _ | Releases c | Extended c _ _ _ _ | Cuts c _ | Confirms_ _ c => client c
  | Sets _ c _ _ | Raises _ c _ _ _ | Extends_ _ c _ _ _ | Deletes _ c | Wins c _ _ _ _ => writer c
  | _ => true
  end.

(* What a body grants to a reader, and its shelf then. A writer sends Share_extend after its downgrade. *)
Definition grants_to_reader (y : shared_system) (s : shared_state) (b : body) (a : Shared.action) (c : attempt) (ttl : Z)
  : option Shared.shelf :=
  let may := match a with
             | Shared.Share => Shared.reads (begins_as y c)
             | Shared.Share_extend => negb (writes y s c)
             | _ => false
             end in
  match Shared.serve server_rules (server_clock (core y) b (now (core y) (of_core s))) (Shared.ask a c 0 ttl)
          (shelf_of s b (resource_of (core y) c)) with
  | (h, true) => if may then Some h else None
  | _ => None
  end.

Definition shared_act (y : shared_system) (s : shared_state) (e : shared_event) : option shared_state :=
  let t := of_core s in
  match e with
  | Of_core e =>
      if core_may y e then match act (core y) t e with Some t' => Some (with_core s t') | None => None end else None
  | Asks b a c began ttl t_ =>
      let x := resource_of (core y) c in
      match grants_to_reader y s b a c ttl with
      | Some h =>
          if intact t b && negb (c =? marker)%nat && has_begun t c && (began <=? moment_now t)%nat
          then let fences := raised (fence t b) (stripe_for (core y) c) t_ in
            Some (with_list (with_core s
              (with_log (with_body t b (knows t b) fences (update (keys t b) x (option_map as_key (Shared.held h))))
                 [observe t b fences (Extends c began ttl)])) b x (Shared.places h))
          else None
      | None => None
      end
  | Leaves b c =>
      let x := resource_of (core y) c in
      let (h, _) := Shared.serve server_rules (server_clock (core y) b (now (core y) t)) (Shared.ask Shared.Share_release c 0 0)
                      (shelf_of s b x) in
      match phase_of t c with
      | Over => if alive t b && negb (c =? marker)%nat
                then Some (with_list (with_core s
                  (with_body t b (knows t b) (fence t b) (update (keys t b) x (option_map as_key (Shared.held h))))) b x
                  (Shared.places h))
                else None
      | _ => None
      end
  | Place_ends b x c =>
      match Shared.place_of c (lists s b x) with
      | Some e => if alive t b && (e <=? server_clock (core y) b (now (core y) t))
                  then Some (with_list s b x (Shared.without_ c (lists s b x))) else None
      | None => None
      end
  | Reader_wins c places until =>
      match phase_of t c, pick (log t) places with
      | Trying began ttl, Some votes =>
          if Shared.reads (begins_as y c) && is_view (core y) votes && forallb (is_extension c began ttl) votes &&
             (ttl <=? ttl_max (core y)) && (until <=? validity_end (core y) c began ttl)
          then Some (with_core s (with_phase t c (Holding until))) else None
      | _, _ => None
      end
  | Downgrades c =>
      match phase_of t c with
      | Holding _ => Some {| of_core := t; lists := lists s; downgraded := update (downgraded s) c true |}
      | _ => None
      end
  end.

Definition shared_step (y : shared_system) (s : shared_state) (e : shared_event) : option shared_state :=
  match shared_act y s e with Some s' => Some (with_core s' (next (of_core s'))) | None => None end.

Notation shared_reachable y := (Runs.reachable (shared_initial y) (shared_step y)).
Notation shared_follows y := (Runs.follows (shared_step y)).
Notation shared_run y := (Runs.run (shared_step y)).
