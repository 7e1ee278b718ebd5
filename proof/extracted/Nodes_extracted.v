(* SPDX-License-Identifier: BSD-2-Clause

   What a server does with the requests of Shared.v and Slots.v as a program, which nodes.ml compares with
   src/node (proof/README.md). All rules are followed. Numbers are as in Ints.v, and small. *)
Require Import ZArith List.
From Redlock Require Import Arithmetic Classic.
From Redlock Require Shared Slots.
From Redlock Require Import Ints.
Import ListNotations.
Open Scope Z_scope.

(* Nothing of it enters what a server does. *)
Definition any_base : system :=
  {| list_of := fun _ => nil; reaches := fun _ _ => true; resources_of := fun _ => nil; token_of := fun c => c;
     client_clock := fun _ t => t; server_clock := fun _ t => t;
     client_ppm := 0; server_ppm := fun _ => 0; client_error := 0; server_error := 0;
     drift_ppm := fun _ => 0; drift_fixed := 0; steady := fun _ _ => true; quorum := majority_of;
     keeps_data := true; sets_if_absent := true; extend_compares := true; extend_never_shortens := true;
     delete_compares := true; counts_own_round := true; reads_clock_first := true; release_ends := true |}.

(* ---- readers and writers ---- *)

Definition sharing : Shared.system :=
  {| Shared.base := any_base; Shared.begins_as := fun _ => Shared.Reads;
     Shared.writer_respects_marker := true; Shared.reader_respects_writer := true;
     Shared.key_outlives_readers := true; Shared.leaver_spares_others := true; Shared.extend_needs_place := true;
     Shared.downgrade_compares := true; Shared.downgrade_is_final := true; Shared.readers_need_majority := true |}.

Definition shared_actions : list Shared.action :=
  [Shared.Set_; Shared.Extend; Shared.Delete; Shared.Share; Shared.Share_extend; Shared.Share_release].

Definition empty_shelf : Shared.shelf := {| Shared.held := None; Shared.places := [] |}.

(* A server removes what has ended when a request looks at it: here, each time. A stock node does so a
   millisecond after its end, a native node at its end. *)
Definition has_ended (native : bool) (e clock : Z) : bool := if native then e <=? clock else e <? clock.

Definition expire_shelf (native : bool) (clock : Z) (h : Shared.shelf) : Shared.shelf :=
  {| Shared.held := match Shared.held h with
                    | Some (Shared.Token _ e) | Some (Shared.Marker e) =>
                        if has_ended native e clock then None else Shared.held h
                    | None => None
                    end;
     Shared.places := match Shared.last_end (Shared.places h) with
                      | Some e => if has_ended native e clock then [] else Shared.places h
                      | None => []
                      end |}.

Definition serve_shared (native : bool) (action : nat) (c : nat) (ttl clock : Z) (h : Shared.shelf) : Shared.shelf * bool :=
  Shared.serve sharing clock (Shared.ask (nth action shared_actions Shared.Share) c 0 ttl) (expire_shelf native clock h).

(* The owner of the key (`marker` for the marker), its end, and the readers whose end has not come. *)
Definition see_shelf (marker : nat) (clock : Z) (h : Shared.shelf) : option (nat * Z) * list (nat * Z) :=
  (match Shared.held h with
   | Some (Shared.Token o e) => Some (o, e)
   | Some (Shared.Marker e) => Some (marker, e)
   | None => None
   end, Shared.living clock (Shared.places h)).

(* ---- slots ---- *)

Definition taking (numbers : nat -> option nat) (order : list nat) : Slots.system :=
  {| Slots.base := any_base; Slots.number_of := numbers; Slots.order_of := fun _ => order;
     Slots.compares_numbers := true; Slots.counts_one_slot := true;
     Slots.keeps_own_slot := true; Slots.first_comes_first := true |}.

Definition slot_action (action slot : nat) : Slots.action :=
  nth action [Slots.Choose; Slots.Take slot; Slots.Extend slot; Slots.Leave slot] Slots.Release.

Definition empty_slots : nat -> option Slots.key := fun _ => None.

Definition expire_slots (native : bool) (clock : Z) (held : nat -> option Slots.key) : nat -> option Slots.key :=
  fun k => match held k with
           | Some key => if has_ended native (Slots.ends key) clock then None else Some key
           | None => None
           end.

Definition serve_slots (native : bool) (numbers : nat -> option nat) (action : nat) (order : list nat) (c : nat)
  (ttl clock : Z) (held : nat -> option Slots.key) : (nat -> option Slots.key) * option nat :=
  Slots.serve (taking numbers order) clock (Slots.ask (slot_action action (hd 0%nat order)) c 0 ttl)
    (expire_slots native clock held).

Definition see_slot (k : nat) (held : nat -> option Slots.key) : option (nat * Z) :=
  match held k with Some key => Some (Slots.owner key, Slots.ends key) | None => None end.

Extraction "proved.ml" empty_shelf serve_shared see_shelf empty_slots expire_slots serve_slots see_slot.
