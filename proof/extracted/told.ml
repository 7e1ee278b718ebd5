(* A client that has won gives the key to nodes that are late, and then tells its user. A trace says when it has told: so that line
   moves to before the first SET that is not one of the try. Earlier is no easier to accept: the votes must have come by then. *)
let in_time texts =
  let lines = Array.of_list (List.map (fun text -> (text, Array.of_list (String.split_on_char ' ' text))) texts) in
  let begun = Hashtbl.create 64 and late = Hashtbl.create 64 and moved = Hashtbl.create 16 and gone = Hashtbl.create 16 in
  let set i c when_and_ttl =
    match Hashtbl.find_opt begun c with
    | None -> Hashtbl.replace begun c when_and_ttl
    | Some first -> if first <> when_and_ttl && not (Hashtbl.mem late c) then Hashtbl.replace late c i
  in
  Array.iteri
    (fun i (_, w) ->
      match w.(0) with
      | "S" when Array.length w > 6 -> set i w.(3) (w.(1), w.(6))
      | "M" when Array.length w > 6 && w.(3) = "A" -> set i w.(5) (w.(1), w.(6))
      | "W" when Array.length w > 2 && Hashtbl.mem late w.(2) ->
          let before = Hashtbl.find late w.(2) in
          let at = (snd lines.(before)).(1) in
          w.(1) <- at;
          Hashtbl.add moved before (String.concat " " (Array.to_list w));
          Hashtbl.replace gone i ()
      | _ -> ())
    lines;
  List.concat
    (List.init (Array.length lines) (fun i ->
         Hashtbl.find_all moved i @ if Hashtbl.mem gone i then [] else [ fst lines.(i) ]))
