<%def name="main()">
    const bool overwrite = reset[0];
    for (${t.loop("i")})
        ${t.at("buffer_out", "i")} = overwrite ? ${t.at("value", "i")} : ${t.at("buffer", "i")} + ${t.at("value", "i")};
</%def>
